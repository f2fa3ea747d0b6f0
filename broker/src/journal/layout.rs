//! Little-endian fields at fixed offsets, as all structures of a segment are laid out.
//!
//! Callers pass slices whose length they have checked; what the fields mean is theirs.

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes[at..at + 4].try_into();
    u32::from_le_bytes(field.expect("the range is four bytes long"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes[at..at + 8].try_into();
    u64::from_le_bytes(field.expect("the range is eight bytes long"))
}

pub(super) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
