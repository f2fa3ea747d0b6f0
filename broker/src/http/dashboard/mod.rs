//! The dashboard: pages for people, rendered here and readable without scripts. What a visitor does goes through /api/v1 by the modules
//! in broker/assets/, and no page has a way of its own to change anything.
//!
//! A handler asks the broker through [`visit::Visit`], decides what is shown, and fills the view of a template in broker/templates/.

mod asked;
mod asset;
mod choice;
mod cluster;
mod connections;
mod consumer;
mod contract;
mod contracts;
mod diff;
mod duration;
mod form;
mod frame;
mod instead;
mod letters;
mod link;
mod message;
mod messages;
mod options;
mod overview;
mod pager;
mod publish;
mod queue;
mod queue_head;
mod settings;
mod sign_in;
mod streams;
mod visit;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::HttpState;

pub(super) use instead::instead_of_problems;

/// The pages, for whoever has the token or a login.
pub(super) fn pages() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(overview::overview))
        .routes(routes!(streams::streams))
        .routes(routes!(contracts::contracts))
        .routes(routes!(connections::connections))
        .routes(routes!(cluster::cluster))
        .routes(routes!(settings::settings))
        .routes(routes!(options::create))
        .routes(routes!(queue::queue))
        .routes(routes!(messages::messages))
        .routes(routes!(publish::publish))
        .routes(routes!(letters::letters))
        .routes(routes!(contract::contract))
        .routes(routes!(diff::diff))
        .routes(routes!(options::options))
}

/// What whoever is about to sign in needs.
pub(super) fn open() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(asset::asset)).routes(routes!(sign_in::sign_in))
}
