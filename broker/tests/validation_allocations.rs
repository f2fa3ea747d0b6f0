//! A valid payload is judged without an allocation, strict or not.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use protox::file::{File, FileResolver};
use qwerq_broker::registry::{Contract, Unknown};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "the trait is unsafe to implement; every call goes to the system's allocator unchanged")]
// SAFETY: the layout's contract is the caller's, and is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Source;

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let text = "syntax = 'proto2'; message M { required string id = 1; optional M inner = 2; repeated int32 ns = 3 [packed = true];
            map<string, M> by_name = 4; repeated group G = 5 { optional E e = 6; } optional double d = 7; } enum E { A = 1; B = 2; }";
        File::from_source(name, text)
    }
}

#[test]
fn a_valid_payload_is_judged_without_an_allocation() {
    let mut compiler = protox::Compiler::with_file_resolver(Source);
    compiler.open_file("m.proto").expect("the schema compiles");
    let contract = Contract::compile(&compiler.encode_file_descriptor_set(), "M", None).expect("it compiles");
    let payload = [
        "\x0a\x06größ".as_bytes(),
        b"\x12\x03\x0a\x01b\x1a\x04\x01\x80\x01\x02\x22\x08\x0a\x01k\x12\x03\x0a\x01c\x2b\x30\x01\x2c\x39abcdefgh",
    ]
    .concat();
    for unknown in [Unknown::Accept, Unknown::Refuse] {
        let before = ALLOCATIONS.get();
        let verdict = contract.validate(&payload, unknown);
        assert_eq!(ALLOCATIONS.get(), before);
        assert_eq!(verdict, Ok(()));
    }
    let before = ALLOCATIONS.get();
    assert!(contract.validate(b"\xff", Unknown::Accept).is_err());
    assert!(ALLOCATIONS.get() > before, "the counter counts");
}
