//! `schema register --service`: a contract for each rpc of a service, each on a queue of its own.
//!
//! It names queues and types; compiling and registering are the caller's, which is the command or the broker's REST.

use std::collections::BTreeMap;

use qwerq_broker::proto_text::RpcContract;
use qwerq_codegen::compile::{Compiled, Service};
use qwerq_proto::name;

use crate::failure::Failure;

/// The contracts of a service: `GetQuote` of `shop.v1.Pricing` goes to `pricing.get_quote`, or to `<prefix>.get_quote`.
pub(crate) fn contracts(compiled: &Compiled, service: &str, prefix: Option<&str>) -> Result<Vec<RpcContract>, Failure> {
    let service = find(compiled, service)?;
    let prefix = prefix.map_or_else(|| service.queue_prefix(), str::to_owned);
    let mut contracts: BTreeMap<String, RpcContract> = BTreeMap::new();
    for method in &service.methods {
        if method.streaming {
            return Err(Failure::failed(format!(
                "rpc {} of {} streams, and a call has one request and one reply",
                method.name, service.name
            ))
            .next_step("leave the rpc to a service of its own, or publish what streams to a queue"));
        }
        let queue = method.queue(&prefix);
        if !name::is_valid(&queue) {
            return Err(Failure::failed(format!("rpc {} would go to {queue}, which is no name of a queue", method.name))
                .next_step("choose another prefix"));
        }
        let contract = RpcContract { queue: queue.clone(), message_type: method.input.clone(), reply_type: method.output.clone() };
        if contracts.insert(queue.clone(), contract).is_some() {
            return Err(Failure::failed(format!("two rpcs of {} would go to {queue}, {} among them", service.name, method.name))
                .next_step("rename one of them"));
        }
    }
    if contracts.is_empty() {
        return Err(Failure::failed(format!("{} has no rpcs, so there is nothing to register", service.name)));
    }
    Ok(contracts.into_values().collect())
}

fn find<'a>(compiled: &'a Compiled, name: &str) -> Result<&'a Service, Failure> {
    let wanted = name.strip_prefix('.').unwrap_or(name);
    compiled.services.iter().find(|service| service.name == wanted).ok_or_else(|| {
        let failure = Failure::failed(format!("the file has no service `{name}`"));
        let names: Vec<_> = compiled.services.iter().map(|service| service.name.as_str()).collect();
        match names.is_empty() {
            true => failure.next_step("it has none at all; register a message"),
            false => failure.next_step(format!("it has {}", names.join(", "))),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compiled(rpcs: &str) -> Compiled {
        let mut file = tempfile::Builder::new().suffix(".proto").tempfile().expect("a file");
        let text = format!("syntax = \"proto3\"; package shop.v1; message A {{}} message B {{}} service PricingDesk {{ {rpcs} }}");
        file.write_all(text.as_bytes()).expect("written text");
        qwerq_codegen::compile::compile(file.path(), &[]).expect("good text")
    }

    #[test]
    fn every_rpc_gets_a_queue_of_its_own() {
        let compiled = compiled("rpc GetQuote (A) returns (B); rpc List2 (B) returns (A);");
        let contract = |queue: &str, message: &str, reply: &str| RpcContract {
            queue: queue.into(),
            message_type: format!("shop.v1.{message}"),
            reply_type: format!("shop.v1.{reply}"),
        };
        let found = contracts(&compiled, "shop.v1.PricingDesk", None).expect("two");
        assert_eq!(found, [contract("pricing_desk.get_quote", "A", "B"), contract("pricing_desk.list2", "B", "A")]);
        let found = contracts(&compiled, "shop.v1.PricingDesk", Some("eu.desk")).expect("two");
        assert_eq!(found[0].queue, "eu.desk.get_quote");
    }

    #[test]
    fn what_cannot_be_called_is_refused_by_name() {
        for (rpcs, service, says) in [
            ("rpc Get (A) returns (stream B);", "shop.v1.PricingDesk", "Get"),
            ("rpc Get (A) returns (B);", "shop.v1.Pricing", "shop.v1.PricingDesk"),
            ("rpc GetIt (A) returns (B); rpc get_it (A) returns (B);", "shop.v1.PricingDesk", "get_it"),
            ("", "shop.v1.PricingDesk", "no rpcs"),
        ] {
            let report = contracts(&compiled(rpcs), service, None).expect_err(rpcs).report();
            assert!(report.contains(says), "{report}");
        }
    }
}
