//! What becomes a contract, what is refused with which error, and which contracts are the same.

use qwerq_broker::registry::{Contract, SchemaError};

use crate::compile::compile_sources;

const SHOP: &str = r#"syntax = "proto3"; package shop;
message Order { string id = 1; repeated Line lines = 2; } message Line { string sku = 1; int32 units = 2; }
message Quote { int64 cents = 1; } enum State { STATE_UNSPECIFIED = 0; }"#;

#[test]
fn an_unknown_type_is_refused_with_what_it_may_have_meant() {
    let set = compile_sources(&[("shop.proto", SHOP)]);
    for (name, message) in [
        ("shop.Ordr", "the descriptor set holds no message `shop.Ordr`; did you mean `shop.Order`?"),
        ("Order", "the descriptor set holds no message `Order`; did you mean `shop.Order`?"),
        ("store.Order", "the descriptor set holds no message `store.Order`; did you mean `shop.Order`?"),
        ("shop.Zebra", "the descriptor set holds no message `shop.Zebra`; did you mean one of `shop.Order`, `shop.Line`, `shop.Quote`?"),
        ("shop.State", "`shop.State` is an enum, not a message; did you mean one of `shop.Order`, `shop.Line`, `shop.Quote`?"),
    ] {
        let error = Contract::compile(&set, name, None).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.code().name(), "type-not-found");
    }
    assert!(matches!(Contract::compile(&set, "shop.Order", Some("shop.Qoute")), Err(SchemaError::TypeNotFound { .. })));
}
