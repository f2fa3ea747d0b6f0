//! How often what happened; a simulation in which something never happens tests nothing of it.

macro_rules! covered {
    ($($name:ident),* $(,)?) => {
        /// Counts of one seed or of many.
        #[derive(Debug, Default)]
        pub(crate) struct Covered {
            $(pub(crate) $name: u64,)*
        }

        impl Covered {
            pub(crate) fn add(&mut self, other: &Covered) {
                $(self.$name += other.$name;)*
            }

            pub(crate) fn check_everything_happened(&self) {
                $(assert!(self.$name > 0, "{} never happened", stringify!($name));)*
            }
        }
    };
}

covered! {
    published, delayed, with_ttl, duplicates, pending_duplicates, too_large, dedup_full, queue_full,
    delivered, redelivered, acked, nacked, rejected, released, extended, stale, leases_expired, counted_disconnects, heard,
    letters_after_max_deliveries, letters_rejected, letters_expired, letters_of_no_group, letters_invalid, dropped, retried_for_ever,
    expired, expired_without_group, fell_due, room_made_below, room_made_between, skipped, groups_expired,
    redriven_to_their_group, redriven_to_all, redriven_elsewhere, overtaken_moves,
    isolated, isolated_late, pulled, settled_by_anybody, read, missed, ended_readers, explained,
    purges, seeks, settled_through, checkpoints, crashes, lost_entries, ended_subscriptions, entries_for_the_gone,
}
