//! What macros read is what `qwer-q gen` wrote, and damage is told with its cure.

use super::schema::Message;
use super::*;
use crate::definition::Definition;

/// The lock that the macros' tests in the crate `qwerq` are held to as well.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/rust/runtime/tests/contracts")
}

fn fixture_place() -> Place {
    Place::found(&fixture()).unwrap()
}

fn lit(text: &str) -> LitStr {
    LitStr::new(text, Span::call_site())
}

/// A message, a line each field: `number name type`, then what else is known of it.
fn shown(message: &Message) -> Vec<String> {
    let field = |field: &schema::Field| {
        let mut line = format!("{} {} {field}", field.number, field.name);
        line += if field.packed { " packed" } else { "" };
        line += &field.oneof.as_ref().map_or(String::new(), |oneof| format!(" in {oneof}"));
        line += &field.default.as_ref().map_or(String::new(), |default| format!(" = {default}"));
        line
    };
    message.fields.iter().map(field).collect()
}

#[test]
fn types_are_read_as_proto3_says_them() {
    let lock = Lock::read(fixture_place()).unwrap();
    let contract = lock.contract(&lit("orders.created")).unwrap();
    assert_eq!((contract.version, contract.versioned("shop.v1.Order").as_str()), (4, "shop.v1.Order v4"));
    let order = lock.message(contract, "shop.v1.Order").unwrap();
    assert_eq!(
        shown(order),
        [
            "1 id string",
            "2 customer_id string",
            "3 total int64",
            "4 lines repeated shop.v1.Line",
            "5 status enum shop.v1.Status",
            "6 note optional string",
            "7 discounts map<string, int32>",
            "8 placed_at google.protobuf.Timestamp",
            "9 pickup string in delivery",
            "10 address shop.v1.Address in delivery",
            "11 coupons repeated uint32 packed",
        ]
    );
    assert_eq!(order.oneofs, ["delivery"]);
    assert_eq!(order.members("delivery").count(), 2);
    let status = lock.enumeration(contract, "shop.v1.Status").unwrap();
    assert_eq!(status.values, [("STATUS_UNSPECIFIED".to_owned(), 0), ("STATUS_OPEN".to_owned(), 1), ("STATUS_PAID".to_owned(), 2)]);
    // Another contract's types are not this one's.
    assert!(lock.message(contract, "shop.v1.Sample").is_none());
    let samples = lock.contract(&lit("samples")).unwrap();
    assert!(lock.message(samples, "shop.v1.Sample.Part").is_some() && lock.enumeration(samples, "shop.v1.Sample.Color").is_some());
    assert!(lock.message(samples, "shop.v1.Sample.ByNumberEntry").is_none(), "a map entry is no type that anybody writes");
}

#[test]
fn types_are_read_as_proto2_says_them() {
    let lock = Lock::read(fixture_place()).unwrap();
    let contract = lock.contract(&lit("legacy.orders")).unwrap();
    assert_eq!(
        shown(lock.message(contract, "shop.legacy.Order").unwrap()),
        [
            "1 id required string",
            "2 count optional int32 = 7",
            "3 codes repeated int32",
            "4 packed_codes repeated int32 packed",
            "5 extra optional group shop.legacy.Order.Extra",
            "6 level optional enum shop.legacy.Level = HIGH",
        ]
    );
}

#[test]
fn types_are_read_as_an_edition_says_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../codegen/tests/golden/edition/in/edition.binpb");
    let bytes = fs::read(path).unwrap();
    let files: Vec<File> = descriptor::split(&bytes).unwrap().into_iter().map(|file| descriptor::file(file).unwrap()).collect();
    let mut messages = files.iter().flat_map(|file| &file.messages);
    assert_eq!(
        shown(messages.find(|message| message.name == "edition.v1.Features").unwrap()),
        [
            "1 explicit optional string",
            "2 implicit string",
            "3 required required string",
            "4 packed repeated int32 packed",
            "5 expanded repeated int32",
            "6 prefixed edition.v1.Features.Inner",
            "7 delimited optional group edition.v1.Features.Inner",
            "8 delimited_list repeated group edition.v1.Features.Inner",
            "9 by_name map<string, edition.v1.Features.Inner>",
            "10 a string in choice",
            "11 b group edition.v1.Features.Inner in choice",
            "12 at google.protobuf.Timestamp",
            "13 with_default optional int32 = 7",
            "14 kind optional enum edition.v1.Features.Kind",
        ]
    );
}

#[test]
fn the_lock_is_looked_for_from_the_crate_upwards() {
    let folder = fixture();
    let below = folder.join("proto/shop/v1");
    assert_eq!(Place::found(&below).unwrap(), Place { path: folder.join(LOCK), shown: "../../../qwerq.lock".to_owned() });
    assert_eq!(Place::named(&below, "../../..").unwrap().path, below.join("../../..").join(LOCK));
    let error = Place::found(Path::new("/nowhere/at/all")).unwrap_err();
    assert!(error.contains("no qwerq.lock in /nowhere/at/all or a folder above it\n`qwer-q gen` writes it"), "{error}");
    let error = Place::named(&folder, "other.lock").unwrap_err();
    assert!(error.contains("no lock at other.lock; the path is relative to the folder of Cargo.toml\n`qwer-q gen` writes it"), "{error}");
}

#[test]
fn a_queue_that_is_not_there_is_answered_with_the_one_that_was_meant() {
    let lock = Lock::read(fixture_place()).unwrap();
    let error = lock.contract(&lit("order.created")).unwrap_err().to_string();
    assert!(error.starts_with("no contract of queue `order.created` in qwerq.lock; "), "{error}");
    assert!(error.contains("; did you mean `orders.created`?\nif the queue is new, `qwer-q gen` takes"), "{error}");
}

#[test]
fn a_lock_that_does_not_fit_its_descriptors_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, descriptors) = (folder.path().join(LOCK), folder.path().join(DESCRIPTORS));
    let text = fs::read_to_string(fixture().join(LOCK)).unwrap();
    let bytes = fs::read(fixture().join(DESCRIPTORS)).unwrap();
    let refused = |text: &str, bytes: Option<&[u8]>| {
        fs::write(&lock, text).unwrap();
        match bytes {
            Some(bytes) => fs::write(&descriptors, bytes).unwrap(),
            None => fs::remove_file(&descriptors).unwrap(),
        }
        Lock::read(Place::found(folder.path()).unwrap()).unwrap_err()
    };
    let damaged = bytes.len() / 2;
    for (error, expected) in [
        (refused(&text, Some(&bytes[..damaged])), "qwerq.descriptors.binpb is not the one that it was written with"),
        (refused(&text.replace("\"shop/v1/order.proto\"", "\"shop/v1/ordre.proto\""), Some(&bytes)), "has no file \"shop/v1/ordre.proto\""),
        (refused(&text.replace("format = 1", "format = 2"), Some(&bytes)), "has format 2, and this version of qwerq reads 1"),
        (refused(&text.replace("qwerq.descriptors", "other"), Some(&bytes)), "names the descriptor file \"other.binpb\""),
        (refused(&text, None), "qwerq.descriptors.binpb is missing beside it"),
    ] {
        assert!(error.contains(expected) && error.ends_with(RESTORE), "{error}");
    }
}

#[test]
fn a_lock_is_read_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK);
    fs::copy(fixture().join(DESCRIPTORS), folder.path().join(DESCRIPTORS)).unwrap();
    let text = fs::read_to_string(fixture().join(LOCK)).unwrap();
    fs::write(&path, &text).unwrap();
    let place = Place::found(folder.path()).unwrap();
    let first = cached(place.clone()).unwrap();
    assert_eq!(first.contract(&lit("orders.created")).unwrap().version, 4);
    fs::write(&path, text.replace("version = 4", "version = 12")).unwrap();
    assert_eq!(cached(place.clone()).unwrap().contract(&lit("orders.created")).unwrap().version, 12);
    assert!(first.tracked().to_string().contains("include_bytes"));
}

#[test]
fn two_texts_of_one_file_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(fixture().join(DESCRIPTORS)).unwrap();
    let files = descriptor::split(&bytes).unwrap();
    let order = files.iter().find(|file| descriptor::file_name(file) == Ok("shop/v1/order.proto".to_owned())).unwrap();
    // The same file with another message `Line`, which has no fields.
    let second = [*order, b"\x22\x06\x0a\x04Line"].concat();
    let length = [u8::try_from(second.len() & 0x7f).unwrap() | 0x80, u8::try_from(second.len() >> 7).unwrap()];
    let set = [&bytes[..], b"\x0a", &length, &second].concat();
    let text = fs::read_to_string(fixture().join(LOCK)).unwrap();
    let (before, paid) = text.split_once("queue = \"orders.paid\"").unwrap();
    let text = format!("{before}queue = \"orders.paid\"{}", paid.replacen("/order.proto", "/order.proto~2", 1));
    fs::write(folder.path().join(LOCK), text.replace(&sha256::hex(&bytes), &sha256::hex(&set))).unwrap();
    fs::write(folder.path().join(DESCRIPTORS), set).unwrap();

    let lock = Lock::read(Place::found(folder.path()).unwrap()).unwrap();
    let named = |name: &str, queue: Option<&LitStr>| match Definition::<Message>::named(&lock, &lit(name), queue) {
        Ok(definition) => definition.shown,
        Err(error) => error.to_string(),
    };
    assert_eq!(named("shop.v1.Address", None), "shop.v1.Address", "both texts say the same of it");
    let ambiguous = named("shop.v1.Line", None);
    assert!(ambiguous.contains("the contracts of `orders.created` and `orders.paid` hold different texts of shop.v1.Line"), "{ambiguous}");
    assert_eq!(named("shop.v1.Line", Some(&lit("orders.created"))), "shop.v1.Line v4");
}
