//! The dice: splitmix64, so that a seed means the same for ever.

/// A seeded generator.
pub(crate) struct Random(u64);

impl Random {
    /// Two seeds give unrelated streams.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number of `from..=to`.
    pub(crate) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// As [`Random::within`], for what fits 32 bits.
    pub(crate) fn within_u32(&mut self, from: u32, to: u32) -> u32 {
        u32::try_from(self.within(from.into(), to.into())).expect("between two u32")
    }

    /// True once in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them, if there is one.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let n = u64::try_from(from.len()).expect("a length fits");
        (n > 0).then(|| &from[usize::try_from(self.below(n)).expect("below a length")])
    }
}
