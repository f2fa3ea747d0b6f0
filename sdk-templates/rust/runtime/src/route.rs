//! Which address to dial next: the leader that was named, then the seeds in random order, each once. Knows no socket and no time.

use std::collections::VecDeque;

use rand::seq::SliceRandom;

/// Redirects that are followed in one round at most: nodes that name each other must not keep a client busy.
const HOPS_MAX: usize = 3;

/// One round through the addresses.
#[derive(Debug)]
pub(crate) struct Route {
    waiting: VecDeque<String>,
    dialled: Vec<String>,
    hops: usize,
}

impl Route {
    /// A round that begins with `leader`, if there is one.
    pub(crate) fn new(leader: Option<&str>, seeds: &[String]) -> Route {
        let mut seeds = seeds.to_vec();
        seeds.shuffle(&mut rand::rng());
        let mut route = Route { waiting: VecDeque::new(), dialled: Vec::new(), hops: 0 };
        leader.map(str::to_owned).into_iter().chain(seeds).for_each(|address| {
            if !route.waiting.contains(&address) {
                route.waiting.push_back(address);
            }
        });
        route
    }

    /// The next address.
    pub(crate) fn next(&mut self) -> Option<String> {
        let address = self.waiting.pop_front()?;
        self.dialled.push(address.clone());
        Some(address)
    }

    /// A node named the leader: it is next, unless it was dialled before or there were too many such hops.
    pub(crate) fn redirect(&mut self, leader: &str) {
        if self.hops < HOPS_MAX && !self.dialled.iter().any(|address| address == leader) {
            self.hops += 1;
            self.waiting.retain(|address| address != leader);
            self.waiting.push_front(leader.to_owned());
        }
    }
}

/// The addresses of a list such as `a:9876,b:9876`.
pub(crate) fn addresses(list: &str) -> impl Iterator<Item = String> {
    list.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds() -> Vec<String> {
        addresses("a:1, b:1,,c:1").collect()
    }

    fn rest(route: &mut Route) -> Vec<String> {
        let mut rest: Vec<String> = std::iter::from_fn(|| route.next()).collect();
        rest.sort_unstable();
        rest
    }

    #[test]
    fn the_last_leader_comes_first_and_every_seed_once() {
        let mut route = Route::new(Some("b:1"), &seeds());
        assert_eq!(route.next().as_deref(), Some("b:1"));
        assert_eq!(rest(&mut route), ["a:1", "c:1"]);
        assert_eq!(rest(&mut Route::new(None, &seeds())), ["a:1", "b:1", "c:1"]);
    }

    #[test]
    fn a_named_leader_is_next_and_nobody_is_dialled_twice() {
        let mut route = Route::new(None, &seeds());
        let first = route.next().unwrap();
        route.redirect("leader:1");
        assert_eq!(route.next().as_deref(), Some("leader:1"));
        route.redirect(&first);
        route.redirect("leader:1");
        let others: Vec<String> = seeds().into_iter().filter(|seed| *seed != first).collect();
        assert_eq!(rest(&mut route), others);
    }

    #[test]
    fn nodes_that_name_one_another_are_followed_only_so_far() {
        let mut route = Route::new(Some("0:1"), &[]);
        for hop in 1..10 {
            if route.next().is_none() {
                assert_eq!(hop, HOPS_MAX + 2);
                return;
            }
            route.redirect(&format!("{hop}:1"));
        }
        panic!("followed for ever");
    }
}
