//! Rules that the stated cases leave open: levels to the last, paths below maps, merged parts, groups, many required fields.

use std::fmt::Write as _;

use qwerq_broker::registry::{Contract, Unknown};

use crate::compile::compile_sources;

const SCHEMA: &str = r#"
syntax = "proto2";
package r;
message M {
  optional M m = 1;
  repeated M ms = 2;
  optional string s = 3;
  repeated string ss = 4;
  map<string, M> by_s = 5;
  map<sint64, R> by_n = 6;
  map<bool, string> by_b = 7;
  optional group G = 8 { optional M m = 1; repeated group H = 9 { optional string s = 1; } }
  oneof one { R left = 10; R right = 11; int32 none = 12; }
  repeated bytes bs = 13;
  repeated fixed32 fs = 14 [packed = true];
  extensions 100 to 200;
}
message R { required string a = 1; required string b = 2; optional R r = 3; }
extend M { repeated string xs = 100; optional R x = 101; }
"#;

fn contract() -> Contract {
    Contract::compile(&compile_sources(&[("r.proto", SCHEMA)]), "r.M", None).expect("it compiles")
}

/// A length-delimited field; `content` is short.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("a short content");
    let tag = [number << 3 | 2, 0];
    let tag = if number < 16 { &tag[..1] } else { &[number << 3 | 0x82, number >> 4][..] };
    let len = [(len & 0x7f | 0x80).to_le_bytes()[0], (len >> 7).to_le_bytes()[0]];
    [tag, &len, content].concat()
}

fn nested(levels: usize, wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    (0..levels).fold(Vec::new(), |inner, _| wrap(&inner))
}

#[test]
fn the_hundredth_level_is_the_last() {
    let contract = contract();
    let message = |inner: &[u8]| field(1, inner);
    let element = |inner: &[u8]| field(2, inner);
    let group = |inner: &[u8]| [&b"\x43"[..], &field(1, inner), b"\x44"].concat();
    let entry = |inner: &[u8]| field(5, &field(2, inner));
    let unknown = |inner: &[u8]| [&b"\xbb\x06"[..], inner, b"\xbc\x06"].concat();
    for (name, deepest, one_more) in [
        ("m", nested(100, message), nested(101, message)),
        ("ms", nested(100, element), nested(101, element)),
        ("g", nested(50, group), message(&nested(50, group))),
        ("by_s", nested(50, entry), message(&nested(50, entry))),
        ("103", nested(100, unknown), nested(101, unknown)),
    ] {
        assert_eq!(contract.validate(&deepest, Unknown::Accept), Ok(()), "{name}");
        let found = contract.validate(&one_more, Unknown::Accept).expect_err(name);
        assert_eq!(found.kind.name(), "depth", "{name}: {found}");
        assert_eq!(found.path.split('.').count(), if name == "by_s" { 51 } else { 101 }, "{found}");
    }
}

#[test]
fn violations_are_placed_as_the_rules_say() {
    let contract = contract();
    let sub = |part: &[u8]| field(1, part);
    let key = |text: &[u8]| field(1, text);
    let cases: Vec<(Vec<u8>, &str, &str, usize)> = vec![
        // Elements are counted in the merged message.
        ([sub(&field(4, b"a")), sub(&[field(4, b"b"), field(4, b"\xff")].concat())].concat(), "utf8", "m.ss[2]", 14),
        ([field(2, b""), field(2, &field(3, b"\xff"))].concat(), "utf8", "ms[1].s", 6),
        // Bytes have no index.
        ([&field(13, b"")[..], b"\x6a\x05"].concat(), "truncated", "bs", 3),
        (field(14, b"abcde"), "truncated", "fs", 0),
        (b"\x70\x01".to_vec(), "wire-type", "fs", 0),
        // A map's key shows wherever it stands in the entry, the last one counts, and without one it is the default.
        (field(5, &[key(b"k"), field(2, &field(3, b"\xff"))].concat()), "utf8", "by_s[k].s", 10),
        (field(5, &[field(2, &field(3, b"\xff")), key(b"j"), key(b"k")].concat()), "utf8", "by_s[k].s", 6),
        (field(5, &field(2, &field(3, b"\xff"))), "utf8", "by_s[].s", 6),
        (field(5, &[key(b"a\nb"), b"\x10\x01".to_vec()].concat()), "wire-type", "by_s[a\\nb]", 9),
        (field(6, &[b"\x08\x03".to_vec(), field(2, &field(1, b"\xff"))].concat()), "utf8", "by_n[-2].a", 8),
        (field(7, &[b"\x08\x02".to_vec(), field(2, b"\xff")].concat()), "utf8", "by_b[true]", 5),
        // What breaks in an entry beside its value ends at the map's name.
        (field(5, &key(b"\xff")), "utf8", "by_s", 3),
        (field(6, &key(b"k")), "wire-type", "by_n", 3),
        (field(5, b"\x0f"), "tag", "by_s", 3),
        (field(5, b"\x04"), "tag", "by_s", 3),
        (field(5, b"\x0c"), "group", "by_s", 3),
        (b"\x2a\x05".to_vec(), "truncated", "by_s", 0),
        // Groups.
        (b"\x43\x4b\x0a\x01\xff\x4c\x44".to_vec(), "utf8", "g.h[0].s", 2),
        (b"\x43\x4b\x4c\x4b\x44".to_vec(), "group", "g.h[1]", 4),
        (b"\x1a\x00\x43\x0a\x00".to_vec(), "group", "g", 2),
        (sub(b"\x43"), "group", "m.g", 3),
        (b"\x42\x00".to_vec(), "wire-type", "g", 0),
        // Unknown groups hold numbers.
        (b"\xbb\x06\x2b\x08".to_vec(), "truncated", "103.5.1", 3),
        (b"\xbb\x06\x2b\x34".to_vec(), "group", "103.5", 3),
        // Tags and lengths.
        (sub(b"\xff\xff\xff\xff\x1f"), "tag", "m", 3),
        (b"\x1a\x80\x80\x80\x80\x08".to_vec(), "length", "s", 0),
        (b"\x1a\x81\x80\x80\x80\x80\x00".to_vec(), "length", "s", 0),
        // Extensions.
        (b"\xa2\x06\x00\xa2\x06\x01\xff".to_vec(), "utf8", "[r.xs][1]", 3),
        (b"\xa0\x06\x00".to_vec(), "wire-type", "[r.xs][0]", 0),
        // What is required is judged when all parts are read; the innermost end comes first, then the lowest number.
        (field(10, b""), "required", "left.a", 3),
        (field(10, &[field(1, b""), field(3, b"")].concat()), "required", "left.r.a", 9),
        ([field(10, &field(1, b"")), field(1, b"")].concat(), "required", "left.b", 6),
        ([field(10, &field(1, b"")), b"\x1a\x01\xff".to_vec()].concat(), "utf8", "s", 6),
        ([field(10, b""), field(11, &field(1, b""))].concat(), "required", "right.b", 9),
        (field(6, b"\x08\x03"), "required", "by_n[-2].a", 5),
        (b"\xaa\x06\x03\x0a\x01a".to_vec(), "required", "[r.x].b", 6),
    ];
    for (payload, kind, path, offset) in cases {
        let found = contract.validate(&payload, Unknown::Accept).expect_err(path);
        assert_eq!((found.kind.name(), found.path.as_str(), found.offset), (kind, path, offset), "{found}");
    }
}

#[test]
fn parts_complete_each_other_and_replaced_ones_do_not_count() {
    let contract = contract();
    let (a, b) = (field(1, b"a"), field(2, b"b"));
    let both = [a.clone(), b.clone()].concat();
    for payload in [
        [field(10, &a), field(10, &b)].concat(),
        // Their inner messages merge too.
        [field(10, &[both.clone(), field(3, &a)].concat()), field(10, &field(3, &b))].concat(),
        // Another member of the oneof, or another value of the key, takes the place.
        [field(10, &a), field(11, &both)].concat(),
        [field(10, &a), b"\x60\x01".to_vec()].concat(),
        [field(6, &field(2, &a)), field(6, &field(2, &both))].concat(),
        field(6, &[field(2, &a), field(2, &b)].concat()),
    ] {
        assert_eq!(contract.validate(&payload, Unknown::Refuse), Ok(()), "{payload:02x?}");
    }
    // After another member a part stands alone.
    let alone = [field(10, &a), field(11, &both), field(10, &b)].concat();
    assert_eq!(contract.validate(&alone, Unknown::Refuse).map_err(|found| found.path), Err("left.a".to_owned()));
}

#[test]
fn any_number_of_required_fields_is_judged() {
    let mut source = "syntax = 'proto2'; message Wide {".to_owned();
    for number in 1..=70 {
        write!(source, "required int32 f{number} = {number};").expect("strings take all");
    }
    source.push('}');
    let contract = Contract::compile(&compile_sources(&[("wide.proto", &source)]), "Wide", None).expect("it compiles");
    let payload = |without: u8| -> Vec<u8> {
        let numbers = (1..=70u8).filter(|number| *number != without);
        numbers.flat_map(|number| if number < 16 { vec![number << 3, 1] } else { vec![number << 3 | 0x80, number >> 4, 1] }).collect()
    };
    assert_eq!(contract.validate(&payload(0), Unknown::Refuse), Ok(()));
    for without in [1, 62, 63, 64, 70] {
        let found = contract.validate(&payload(without), Unknown::Refuse).expect_err("one is missing");
        assert_eq!((found.path, found.offset), (format!("f{without}"), payload(without).len()));
    }
}
