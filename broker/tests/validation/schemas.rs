//! Schemas that between them have every kind of field.

use std::{fmt, path::Path};

use prost_reflect::{DescriptorPool, MessageDescriptor};
use qwerq_broker::registry::Contract;

use crate::compile::{compile_file, compile_sources};

const EVERY_KIND: &str = r#"
syntax = "proto3";
package every;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "google/protobuf/wrappers.proto";

enum Level { LEVEL_UNSPECIFIED = 0; LEVEL_LOW = -3; LEVEL_HIGH = 40; LEVEL_HIGHER = 41; }

message Scalars {
  double double = 1; float float = 2; int64 int64 = 3; uint64 uint64 = 4; int32 int32 = 5; fixed64 fixed64 = 6;
  fixed32 fixed32 = 7; bool bool = 8; string string = 9; bytes bytes = 10; uint32 uint32 = 11; Level level = 12;
  sfixed32 sfixed32 = 13; sfixed64 sfixed64 = 14; sint32 sint32 = 15; sint64 sint64 = 16;
  optional int32 maybe = 17; string far = 536870911; Level farther = 70000;
}

message Lists {
  repeated double doubles = 1; repeated float floats = 2; repeated int64 int64s = 3; repeated bool bools = 8;
  repeated string strings = 9; repeated bytes blobs = 10; repeated Level levels = 12; repeated sint32 sint32s = 15;
  repeated int32 loose = 16 [packed = false]; repeated Scalars scalars = 20; repeated Lists lists = 21;
}

message Maps {
  map<int32, string> a = 1; map<int64, bytes> b = 2; map<uint32, Level> c = 3; map<uint64, double> d = 4;
  map<sint32, Scalars> e = 5; map<sint64, Maps> f = 6; map<fixed32, bool> g = 7; map<fixed64, float> h = 8;
  map<sfixed32, Lists> i = 9; map<sfixed64, sint64> j = 10; map<bool, fixed32> k = 11; map<string, Maps> l = 12;
}

message Mixed {
  oneof choice { string text = 1; Scalars scalars = 2; Mixed mixed = 3; bytes raw = 4; }
  oneof other { Lists lists = 5; Level level = 6; }
  google.protobuf.Timestamp at = 7; google.protobuf.Struct body = 8; google.protobuf.Any any = 9;
  google.protobuf.StringValue wrapped = 10; repeated Maps maps = 11;
}

message Empty {}
message OnlyNumbers { int32 a = 1; double b = 2; }
message OnlyEmpty { Empty empty = 1; repeated Empty empties = 2; }
"#;

const LEGACY: &str = r#"
syntax = "proto2";
package old;

message Base {
  required string id = 1;
  optional Base parent = 2;
  repeated group Item = 3 { required int32 n = 4; optional string note = 5; repeated group Part = 6 { optional bytes b = 1; } }
  oneof choice { Base left = 8; group Right = 9 { required string r = 1; } fixed32 none = 10; }
  map<string, Base> by_name = 11;
  repeated Leaf leaves = 12;
  extensions 100 to max;
}
message Leaf { required Kind kind = 1; required bytes data = 2; optional int64 far = 9000; }
enum Kind { ONE = 1; TWO = 2; MINUS = -7; }
extend Base { optional Base more = 100; repeated string words = 101; repeated Leaf twigs = 102; repeated int32 ns = 536870911; }
message Scope { extend Base { optional group Deep = 200 { required bool yes = 1; } } }
"#;

/// A message type as the broker and as the library see it.
pub(crate) struct Subject {
    pub(crate) contract: Contract,
    pub(crate) descriptor: MessageDescriptor,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.descriptor.full_name())
    }
}

/// Every message of the schemas that can be a root.
pub(crate) fn subjects() -> Vec<Subject> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/validation");
    let sets = [
        compile_sources(&[("every.proto", EVERY_KIND)]),
        compile_sources(&[("legacy.proto", LEGACY)]),
        compile_file(&data, "order.proto"),
        compile_file(&data, "legacy.proto"),
    ];
    sets.iter().flat_map(|set| subjects_of(set)).collect()
}

fn subjects_of(set: &[u8]) -> Vec<Subject> {
    let pool = DescriptorPool::decode(set).expect("the library takes the set");
    pool.all_messages()
        .filter(|message| !message.is_map_entry() && message.package_name() != "google.protobuf")
        .map(|descriptor| Subject {
            contract: Contract::compile(set, descriptor.full_name(), None).expect("the contract compiles"),
            descriptor,
        })
        .collect()
}
