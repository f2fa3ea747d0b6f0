//! [`Applied`]: how far into the journal the store reaches.

/// The last journal entry whose effects the store holds. Replay skips it and all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// The entry's term; 0 before the first entry.
    pub term: u64,
    /// The entry's index; 0 before the first entry.
    pub index: u64,
    /// The chained checksum of the entry's journal record.
    pub crc: u32,
}

impl Applied {
    const BYTES: usize = 20;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.term.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.index.to_le_bytes());
        bytes[16..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (term, rest) = bytes.split_first_chunk().expect("20 bytes hold 8");
        let (index, crc) = rest.split_first_chunk().expect("12 bytes hold 8");
        Self {
            term: u64::from_le_bytes(*term),
            index: u64::from_le_bytes(*index),
            crc: u32::from_le_bytes(crc.try_into().expect("4 bytes are left")),
        }
    }
}
