//! Registers whatever bytes libFuzzer thinks of. `broker/tests/registration` does the same from seeds, without a nightly compiler.

#![no_main]

#[path = "../../tests/registration/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::registration(bytes);
});
