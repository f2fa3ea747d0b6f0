//! The AsyncAPI document: queues and streams as channels, their contracts as messages. It is made from what is in force at that moment.
//!
//! Payloads are described by JSON Schemas of their protobuf JSON, which every tool can read; `x-protobuf` names the type itself.

use axum::Json;
use axum::extract::State;
use qwerq_proto::{Opcode, name, wire};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::IntoParams;

use crate::json::schema::schemas;
use crate::net::LocalSession;

use super::HttpState;
use super::extract::{Query, Session};
use super::problem::Problem;

/// Which queues.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AsyncApiQuery {
    /// Only queues whose names contain this.
    search: Option<String>,
}

/// The queues and their contracts as an AsyncAPI 3 document
#[utoipa::path(
    get, path = "/api/v1/asyncapi.json", tag = "schemas", params(AsyncApiQuery),
    responses((status = 200, description = "An AsyncAPI 3 document", body = serde_json::Value, content_type = "application/json"))
)]
pub(crate) async fn asyncapi_json(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Query(query): Query<AsyncApiQuery>,
) -> Result<Json<Value>, Problem> {
    let queues = listed(&mut session, query.search.unwrap_or_default()).await?;
    let mut document = Document::default();
    for queue in queues.iter().filter(|queue| !name::is_dlq(&queue.name)) {
        document.channel(queue);
        let Some(contract) = &queue.contract else { continue };
        let Some(typed) = state.contracts.version(&mut session, &queue.name, contract.version).await else { continue };
        document.schemas(&queue.name, &typed.types.message);
        if let Some(reply) = &typed.types.reply {
            document.schemas(&queue.name, reply);
        }
    }
    Ok(Json(document.finish(state.broker.config.port)))
}

/// Every queue whose name contains `search`, asked for a part at a time so that the shard is never away for long.
async fn listed(session: &mut LocalSession, search: String) -> Result<Vec<wire::QueueInfo>, Problem> {
    const LIMIT: u32 = 500;
    let mut list = wire::QueueList { search, limit: LIMIT, ..wire::QueueList::default() };
    let mut queues = Vec::new();
    loop {
        let listed: wire::QueueListResponse = session.ask(Opcode::QueueList, &list).await?;
        queues.extend(listed.queues);
        if listed.next.is_empty() {
            return Ok(queues);
        }
        list.after = listed.next;
    }
}

#[derive(Debug, Default)]
struct Document {
    channels: Map<String, Value>,
    operations: Map<String, Value>,
    messages: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Document {
    fn channel(&mut self, queue: &wire::QueueInfo) {
        let name = &queue.name;
        let mode = queue.options.as_ref().and_then(|options| options.mode.clone()).unwrap_or_default();
        let contract = queue.contract.as_ref();
        let reply = contract.map(|contract| contract.reply_type.as_str()).filter(|reply| !reply.is_empty());
        let channel = channel_ref(name);
        let mut messages = json!({ "message": { "$ref": format!("#/components/messages/{name}") } });
        self.message(name, contract, contract.map(|contract| contract.message_type.as_str()));
        if reply.is_some() {
            let named = format!("{name}--reply");
            messages["reply"] = json!({ "$ref": format!("#/components/messages/{named}") });
            self.message(&named, contract, reply);
        }
        let options: Map<String, Value> = [("x-qwerq-mode".to_owned(), Value::from(mode))].into_iter().collect();
        let mut described = json!({ "address": name, "messages": messages });
        described.as_object_mut().expect("an object").extend(options);
        self.channels.insert(name.clone(), described);
        let message = json!([{ "$ref": format!("{channel}/messages/message") }]);
        let of_channel = json!({ "$ref": channel });
        let operation =
            |action: &str, summary: &str| json!({ "action": action, "summary": summary, "channel": of_channel, "messages": message });
        self.operations.insert(format!("{name}--publish"), operation("receive", "Clients publish messages"));
        self.operations.insert(format!("{name}--consume"), operation("send", "Consumer groups get messages"));
        if reply.is_some() {
            let mut call = operation("receive", "Clients call, and one responder replies");
            call["reply"] = json!({ "channel": of_channel, "messages": [{ "$ref": format!("{channel}/messages/reply") }] });
            self.operations.insert(format!("{name}--call"), call);
        }
    }

    fn message(&mut self, name: &str, contract: Option<&wire::SchemaVersion>, message_type: Option<&str>) {
        let mut message = json!({ "name": message_type.unwrap_or(name) });
        if let (Some(contract), Some(message_type)) = (contract, message_type) {
            message["contentType"] = "application/x-protobuf".into();
            message["x-protobuf"] = json!({
                "message_type": message_type,
                "version": contract.version,
                "proto": format!("/api/v1/schemas/{}/versions/{}?format=proto", contract.queue, contract.version),
            });
            message["payload"] = json!({ "$ref": schema_ref(&contract.queue, message_type) });
            // A contract that cannot be read for JSON says nothing of its payload; one that can replaces this.
            self.schemas.entry(schema_name(&contract.queue, message_type)).or_insert(json!({}));
        } else {
            message["contentType"] = "application/octet-stream".into();
        }
        self.messages.insert(name.to_owned(), message);
    }

    fn schemas(&mut self, queue: &str, root: &prost_reflect::MessageDescriptor) {
        for (name, schema) in schemas(root, &|name| schema_ref(queue, name)) {
            self.schemas.insert(schema_name(queue, &name), schema);
        }
    }

    fn finish(self, port: u16) -> Value {
        json!({
            "asyncapi": "3.0.0",
            "info": {
                "title": "QWER-Q",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "The queues and streams of a broker, and the contracts of their messages.",
                "license": { "name": env!("CARGO_PKG_LICENSE") },
            },
            "servers": {
                "broker": { "host": format!("localhost:{port}"), "protocol": "qwerq", "description": "The binary protocol, docs/protocol.md" },
            },
            "defaultContentType": "application/x-protobuf",
            "channels": self.channels,
            "operations": self.operations,
            "components": { "messages": self.messages, "schemas": self.schemas },
        })
    }
}

fn channel_ref(queue: &str) -> String {
    format!("#/channels/{queue}")
}

/// Two queues may have types of one name and of different content. A type's name has no `-`, so this is one name for one pair.
fn schema_name(queue: &str, message_type: &str) -> String {
    format!("{queue}--{message_type}")
}

fn schema_ref(queue: &str, message_type: &str) -> String {
    format!("#/components/schemas/{}", schema_name(queue, message_type))
}
