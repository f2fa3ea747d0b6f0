//! What the store's side must keep: snapshots carry rows and messages, and all of it survives a restart.

use std::path::Path;

use openraft::storage::RaftStateMachine;
use openraft::testing::log_id;
use openraft::{Entry, EntryPayload, RaftSnapshotBuilder};
use qwerq_broker::store::{Applied, Checkpoint, MessageKey, Store, StoreOptions};

use crate::image::Image;
use crate::log::Types;
use crate::state_machine::StateMachine;
use crate::suite::{home, run};

fn command(index: u64) -> Entry<Types> {
    Entry { log_id: log_id(1, 0, index), payload: EntryPayload::Normal(format!("command {index}")) }
}

type Messages = Vec<([u8; MessageKey::BYTES], Vec<u8>)>;

/// Messages of two queues and both spaces, with a hole, and one that is larger than a block.
fn messages(text: &str) -> Messages {
    let keys = [(1, 0, 7, 1), (1, 0, 8, 1), (1, 0, 10, 20_000), (1, 1, 3, 1), (9, 0, 1, 1)];
    let message = |(queue, space, number, times)| {
        let key = MessageKey { queue, space, number };
        (key.to_bytes(), format!("{text} {key}").repeat(times).into_bytes())
    };
    keys.map(message).into()
}

/// A machine whose store has a row, these messages, and these commands applied on top.
async fn machine(path: &Path, messages: Messages, commands: u64) -> StateMachine {
    std::fs::create_dir_all(path).unwrap();
    let store = Store::open(&path.join("store"), StoreOptions::default()).unwrap();
    let rows = vec![(format!("row before {commands} commands").into_bytes(), b"a row".to_vec())];
    Image { rows, messages }.install(&store, Applied::default()).unwrap();
    drop(store);
    let mut machine = StateMachine::open(path).unwrap();
    machine.apply((0..commands).map(command)).await.unwrap();
    machine
}

/// What a store's own reader says, which no snapshot went through.
fn assert_reads(path: &Path, messages: &Messages) {
    let reader = Store::open(&path.join("store"), StoreOptions::default()).unwrap().reader();
    for (key, payload) in messages {
        let key = MessageKey::from_bytes(key).unwrap();
        assert_eq!(reader.read(key).unwrap().as_ref(), Some(payload), "{key}");
    }
    assert_eq!(reader.read(MessageKey { queue: 1, space: 0, number: 9 }).unwrap(), None);
}

#[test]
fn an_installed_snapshot_gives_the_same_rows_and_messages() {
    // The same queue further on, and one that is gone.
    let stale = [(1, 500), (4, 9)].map(|(queue, number)| (MessageKey { queue, space: 0, number }.to_bytes(), b"stale".to_vec()));
    let stale = [messages("old"), stale.into()].concat();
    for (name, held, commands) in [("an empty store", None, 0), ("a store that lags", Some(stale), 2)] {
        let home = home();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        run(async {
            let mut source = machine(&from, messages("new"), 5).await;
            let snapshot = source.build_snapshot().await.unwrap();
            let image = source.image();
            assert_eq!(image.messages, messages("new"));
            // The row, five commands and where they end.
            assert_eq!(image.rows.len(), 7);

            let mut target = match held {
                Some(held) => machine(&to, held, commands).await,
                None => StateMachine::open(&to).unwrap(),
            };
            target.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
            assert_eq!(target.image(), image, "{name}");
            drop(target);

            let mut target = StateMachine::open(&to).unwrap();
            assert_eq!(target.image(), image, "{name}, opened again");
            assert_eq!(target.applied_state().await.unwrap().0, Some(log_id(1, 0, 4)));
            assert_eq!(target.get_current_snapshot().await.unwrap().unwrap().meta, snapshot.meta);
        });
        assert_reads(&to, &messages("new"));
    }
}

#[test]
fn what_was_applied_survives_a_restart() {
    let home = home();
    run(async {
        let image = machine(home.path(), messages("kept"), 3).await.image();
        let mut machine = StateMachine::open(home.path()).unwrap();
        assert_eq!(machine.image(), image);
        assert_eq!(machine.applied_state().await.unwrap().0, Some(log_id(1, 0, 2)));
        let replies = machine.apply([command(3)]).await.unwrap();
        assert_eq!(replies, ["command 3"]);
    });
}

#[test]
fn an_installation_that_was_cut_short_is_finished_at_the_next_start() {
    for dropped_queues in [vec![], vec![1, 9]] {
        let home = home();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        run(async {
            let mut source = machine(&from, messages("new"), 5).await;
            source.build_snapshot().await.unwrap();
            drop(machine(&to, messages("old"), 2).await);
            // The snapshot was kept; of the store, at most the old messages were dropped.
            std::fs::copy(from.join("snapshot"), to.join("snapshot")).unwrap();
            let store = Store::open(&to.join("store"), StoreOptions::default()).unwrap();
            let checkpoint = Checkpoint { dropped_queues, applied: store.applied().unwrap(), ..Checkpoint::default() };
            store.checkpoint(checkpoint, &Image::default()).unwrap();
            drop(store);
            assert_eq!(StateMachine::open(&to).unwrap().image(), source.image());
        });
    }
}

#[test]
fn a_snapshot_that_the_store_has_passed_undoes_nothing_at_a_start() {
    let home = home();
    run(async {
        let mut machine = machine(home.path(), messages("new"), 5).await;
        let built = machine.build_snapshot().await.unwrap();
        machine.apply([command(5)]).await.unwrap();
        let image = machine.image();
        drop(machine);
        let mut machine = StateMachine::open(home.path()).unwrap();
        assert_eq!(machine.image(), image);
        let current = machine.get_current_snapshot().await.unwrap().unwrap();
        assert_eq!((current.meta, current.snapshot), (built.meta, built.snapshot));
    });
}
