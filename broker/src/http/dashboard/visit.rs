//! A visitor's request for a page: a session with the broker, and how the visitor wants to see things.
//!
//! What the broker refuses becomes an [`ErrorPage`], so that handlers can pass it on with `?`.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use prost::Message;
use qwerq_proto::{Opcode, wire};

use crate::cluster::Role;
use crate::http::HttpState;
use crate::net::{LocalSession, Shared};

use super::frame::{ErrorPage, Frame, Look, Section};
use super::message::Readable;

/// One request.
pub(super) struct Visit {
    session: LocalSession,
    look: Look,
    state: HttpState,
}

impl FromRequestParts<HttpState> for Visit {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Visit, Self::Rejection> {
        let look = Look::of(&parts.headers, state.access().token().is_some()).in_cluster(state.broker.cluster.is_some());
        Ok(Visit { session: state.session("dashboard"), look, state: state.clone() })
    }
}

impl Visit {
    /// Asks the broker for something whose answer is an `Answer`.
    pub(super) async fn ask<Answer: Message + Default>(&mut self, opcode: Opcode, request: &impl Message) -> Result<Answer, ErrorPage> {
        self.try_ask(opcode, request).await.map_err(|error| self.refused(error))
    }

    /// The same, where a refusal is something to show on the page.
    pub(super) async fn try_ask<Answer: Message + Default>(
        &mut self,
        opcode: Opcode,
        request: &impl Message,
    ) -> Result<Answer, wire::Error> {
        self.session.ask(opcode, request).await
    }

    /// Refuses what only the node of a cluster that leads can show, where no question to the broker does.
    pub(super) fn leads(&self) -> Result<(), ErrorPage> {
        match self.broker().cluster.as_ref().map(|cluster| cluster.status()) {
            Some(status) if status.role != Role::Leader => Err(self.refused(status.not_leader())),
            _ => Ok(()),
        }
    }

    pub(super) fn refused(&self, error: wire::Error) -> ErrorPage {
        ErrorPage { look: self.look, error: Box::new(error) }
    }

    /// At most `limit` streams behind the name `after`.
    pub(super) async fn streams(&mut self, after: &str, limit: usize) -> Result<Vec<wire::QueueInfo>, ErrorPage> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let list = wire::QueueList { after: after.to_owned(), limit, mode: "stream".to_owned(), ..wire::QueueList::default() };
        let listed: wire::QueueListResponse = self.ask(Opcode::QueueList, &list).await?;
        Ok(listed.queues)
    }

    /// One queue.
    pub(super) async fn queue(&mut self, name: &str) -> Result<wire::QueueInfo, ErrorPage> {
        self.ask(Opcode::QueueInfo, &wire::QueueName { name: name.to_owned() }).await
    }

    /// What the API's handlers look at besides the session.
    pub(super) fn state(&self) -> &HttpState {
        &self.state
    }

    /// A version of the contract of `queue`; 0 is the active one. `None`: there is none, or nobody has it any more.
    pub(super) async fn contract(&mut self, queue: &str, version: u32) -> Option<Readable> {
        let contract = self.session.shared().registry.get(queue)?;
        let version = if version == 0 { contract.active() } else { contract.version(version) }?;
        let typed = self.state.contracts.version(&mut self.session, queue, version.version).await;
        Some(Readable { version: Arc::clone(version), message: typed.map(|typed| typed.types.message.clone()) })
    }

    pub(super) fn broker(&self) -> &Shared {
        self.session.shared()
    }

    pub(super) fn frame(&self, title: impl Into<String>, section: Section) -> Frame {
        self.look.frame(title, section)
    }
}
