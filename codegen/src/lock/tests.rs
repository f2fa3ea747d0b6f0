//! What is read is what was written, and damage is found.

use super::*;

fn file(name: &str, content: &str) -> Bytes {
    // Field 2 is the package: here only something in which two files of one name differ.
    let mut bytes = FileName { name: name.to_owned() }.encode_to_vec();
    bytes.extend_from_slice(&[0x12, u8::try_from(content.len()).expect("short")]);
    bytes.extend_from_slice(content.as_bytes());
    bytes.into()
}

fn contract(queue: &str, files: &[Bytes]) -> ContractSource {
    ContractSource {
        queue: queue.to_owned(),
        version: 3,
        message_type: "shop.Order".to_owned(),
        reply_type: (queue == "pricing").then(|| "shop.Quote".to_owned()),
        fingerprint: [0xa5; 32],
        descriptor_set: RawFiles { file: files.to_vec() }.encode_to_vec().into(),
    }
}

fn lock() -> Lock {
    let (money, old, new) = (file("money.proto", "a"), file("order.proto", "a"), file("order.proto", "b"));
    Lock::new(vec![contract("pricing", &[money.clone(), new]), contract("orders", &[money, old])])
}

fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    assert_eq!(lock().write(folder.path()).expect("writes"), [DESCRIPTORS, LOCK]);
    folder
}

#[test]
fn what_is_read_is_what_was_written() {
    let folder = written();
    let read = Lock::read(folder.path()).expect("reads").expect("is there");
    let facts = |lock: &Lock| format!("{:?}", lock.contracts());
    assert_eq!(facts(&read), facts(&lock()));
    assert_eq!(read.check(folder.path()).expect("reads"), []);
    assert_eq!(read.write(folder.path()).expect("writes"), [""; 0]);
}

#[test]
fn the_lock_is_sorted_text_and_shared_files_are_stored_once() {
    let folder = written();
    let text = fs::read_to_string(folder.path().join(LOCK)).expect("is there");
    let (orders, pricing) = (text.find("queue = \"orders\""), text.find("queue = \"pricing\""));
    assert!(orders.is_some() && orders < pricing, "{text}");
    assert!(text.contains("files = [\n    \"money.proto\",\n    \"order.proto\",\n]\n"), "{text}");
    assert!(text.contains("files = [\n    \"money.proto\",\n    \"order.proto~2\",\n]\n"), "{text}");
    let descriptors = fs::read(folder.path().join(DESCRIPTORS)).expect("is there");
    assert_eq!(RawFiles::decode(&*descriptors).expect("a set").file.len(), 3);
}

#[test]
fn without_a_lock_there_is_none() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    assert!(Lock::read(folder.path()).expect("reads").is_none());
    assert_eq!(lock().check(folder.path()).expect("reads"), [Stale::Missing(LOCK.into()), Stale::Missing(DESCRIPTORS.into())]);
}

#[test]
fn a_damaged_lock_is_refused_with_its_reason() {
    let edits: [(&str, &str, &str); 6] = [
        ("format = 1", "format = 9", "has format 9, and this version reads 1"),
        ("version = 3", "<<<<<<< HEAD", "TOML parse error at line "),
        ("fingerprint = \"a5", "fingerprint = \"zz", "queue orders: its fingerprint is not 64 hexadecimal digits"),
        ("\"money.proto\"", "\"monney.proto\"", "queue orders: qwerq.descriptors.binpb has no file \"monney.proto\""),
        ("sha256 = \"", "sha256 = \"0", "is not the one that it was written with"),
        ("file = \"qwerq.", "file = \"other.", "names the descriptor file \"other.descriptors.binpb\""),
    ];
    for (from, to, expected) in edits {
        let folder = written();
        let path = folder.path().join(LOCK);
        let text = fs::read_to_string(&path).expect("is there");
        assert!(text.contains(from), "{from}: {text}");
        fs::write(&path, text.replacen(from, to, 1)).expect("writes");
        let error = Lock::read(folder.path()).expect_err("is damaged").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let folder = written();
    fs::remove_file(folder.path().join(DESCRIPTORS)).expect("was there");
    let error = Lock::read(folder.path()).expect_err("is damaged").to_string();
    assert!(error.contains("qwerq.descriptors.binpb is missing beside it"), "{error}");
}

#[test]
fn a_difference_is_shown_line_by_line() {
    let folder = written();
    let mut newer = lock();
    newer.contracts[0].version = 4;
    let stale = newer.check(folder.path()).expect("reads");
    let [Stale::Changed(path, diff)] = &stale[..] else { panic!("{stale:?}") };
    assert_eq!(path, Path::new(LOCK));
    assert!(diff.contains("-version = 3\n+version = 4\n"), "{diff}");
}
