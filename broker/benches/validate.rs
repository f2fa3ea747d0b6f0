//! The validator against `prost_reflect::DynamicMessage::decode` on two shapes: six fields in about 80 bytes, nested and
//! repeated in about 1 KiB. The validator is to be at least 8 times as fast in both.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use protox::{
    Compiler,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver},
};
use qwerq_broker::registry::{Contract, Unknown};

const SCHEMA: &str = r#"
syntax = "proto3";
package bench;

enum State { STATE_UNSPECIFIED = 0; STATE_OPEN = 1; STATE_PAID = 2; }

message Small {
  string id = 1;
  string customer = 2;
  int64 created_at_ms = 3;
  State state = 4;
  double total = 5;
  int32 items = 6;
}

message Money { string currency = 1; int64 units = 2; int32 nanos = 3; }

message Line {
  string sku = 1;
  string title = 2;
  uint32 quantity = 3;
  Money price = 4;
  map<string, string> attributes = 5;
  repeated int32 sizes = 6;
}

message Large {
  Small head = 1;
  repeated Line lines = 2;
  repeated string tags = 3;
  map<string, int64> counters = 4;
  bytes signature = 5;
}
"#;

struct Schema;

impl FileResolver for Schema {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        File::from_source(name, SCHEMA)
    }
}

fn descriptor_set() -> Vec<u8> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    resolver.add(Schema);
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    compiler.open_file("bench.proto").expect("the schema compiles");
    compiler.encode_file_descriptor_set()
}

fn small() -> serde_json::Value {
    serde_json::json!({
        "id": "01JE9Z3V9Q0M7X2K4T8R6W5Y1A", "customer": "customer-00042@shop", "createdAtMs": "1796126400000",
        "state": "STATE_PAID", "total": 129.95, "items": 300
    })
}

fn large() -> serde_json::Value {
    let line = |n: u32| {
        serde_json::json!({
            "sku": format!("SKU-{n:06}"), "title": format!("A thing that people order, number {n}"),
            "quantity": n + 1, "price": {"currency": "EUR", "units": "1299", "nanos": 990_000_000},
            "attributes": {"colour": "blue", "material": "cotton"}, "sizes": [36, 38, 40, 142, 1044]
        })
    };
    serde_json::json!({
        "head": small(), "lines": (0..6).map(line).collect::<Vec<_>>(),
        "tags": ["express", "gift", "first-order", "größer"],
        "counters": {"views": "18", "clicks": "1234567"}, "signature": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ"
    })
}

fn validate(c: &mut Criterion) {
    let set = descriptor_set();
    let pool = DescriptorPool::decode(set.as_slice()).expect("the library takes the set");
    for (name, message_type, body) in [("small", "bench.Small", small()), ("large", "bench.Large", large())] {
        let descriptor = pool.get_message_by_name(message_type).expect("the type is there");
        let message = DynamicMessage::deserialize(descriptor.clone(), body).expect("the body fits");
        let payload = message.encode_to_vec();
        let contract = Contract::compile(&set, message_type, None).expect("the contract compiles");
        contract.validate(&payload, Unknown::Refuse).expect("the payload is valid");

        let mut group = c.benchmark_group(format!("{name}/{}B", payload.len()));
        group.throughput(Throughput::Bytes(payload.len() as u64));
        group.bench_function("permissive", |b| {
            b.iter(|| contract.validate(black_box(&payload), Unknown::Accept));
        });
        group.bench_function("strict", |b| {
            b.iter(|| contract.validate(black_box(&payload), Unknown::Refuse));
        });
        group.bench_function("dynamic-message", |b| {
            b.iter(|| DynamicMessage::decode(descriptor.clone(), black_box(payload.as_slice())));
        });
        group.finish();
    }
}

criterion_group!(benches, validate);
criterion_main!(benches);
