//! What the system says of this process.

/// Memory of this process that is in RAM, in bytes; `None` where the system does not say.
pub(super) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn this_process_takes_memory() {
        assert!(super::resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
