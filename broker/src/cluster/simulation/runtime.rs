//! The simulation's executor: one thread, a clock that jumps from timer to timer, and nodes whose clocks run at their own pace.
//!
//! A seed says which of the tasks that can go on goes on first, so the same seed takes the same steps. Tasks belong to nodes: a node that is
//! paused takes no steps, and one that is killed loses its tasks where they stand. It knows nothing of Raft but openraft's trait.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};
use tokio::sync::oneshot;

use super::rng::Rng;

/// The node of what runs beside the nodes: clients, and messages on their way.
pub(super) const WORLD: u64 = 0;

const NANOS: u64 = 1_000_000_000;
const MILLION: i128 = 1_000_000;

thread_local! {
    static EXECUTOR: RefCell<Option<Executor>> = const { RefCell::new(None) };
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Executor {
    /// True time, in nanoseconds since the beginning.
    now: u64,
    /// Stands for the beginning where the code under test wants the system's type.
    origin: std::time::Instant,
    rng: Rng,
    /// By how much each node's clock runs faster, in millionths.
    drifts: BTreeMap<u64, i64>,
    paused: BTreeSet<u64>,
    tasks: BTreeMap<u64, Task>,
    next_task: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
    ready: Ready,
    current: u64,
}

type Ready = Arc<Mutex<BTreeSet<u64>>>;

struct Task {
    node: u64,
    /// Away while it is polled.
    work: Option<Work>,
    waker: Waker,
}

struct Bell {
    task: u64,
    ready: Ready,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap().insert(self.task);
    }
}

fn with<T>(work: impl FnOnce(&mut Executor) -> T) -> T {
    EXECUTOR.with_borrow_mut(|executor| work(executor.as_mut().expect("this runs in a simulation")))
}

/// Begins a simulation on this thread, in the place of any that went on.
pub(super) fn begin(seed: u64) -> Ending {
    end();
    let executor = Executor {
        now: 0,
        origin: std::time::Instant::now(),
        rng: Rng::new(seed),
        drifts: BTreeMap::new(),
        paused: BTreeSet::new(),
        tasks: BTreeMap::new(),
        next_task: 0,
        timers: BTreeMap::new(),
        next_timer: 0,
        ready: Ready::default(),
        current: WORLD,
    };
    EXECUTOR.set(Some(executor));
    Ending
}

/// Ends the simulation when it is dropped, also by a panic.
pub(super) struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        end();
    }
}

/// Ends it; what still runs is dropped.
fn end() {
    // Tasks that go stop timers and tell other tasks, so the executor must be there but not in use.
    let tasks = EXECUTOR.with_borrow_mut(|executor| executor.as_mut().map(|executor| std::mem::take(&mut executor.tasks)));
    drop(tasks);
    drop(EXECUTOR.take());
}

/// True time since the beginning.
pub(super) fn now() -> Duration {
    Duration::from_nanos(with(|executor| executor.now))
}

/// What the current node's clock shows.
pub(super) fn local() -> Duration {
    Duration::from_nanos(with(|executor| executor.local(executor.current, executor.now)))
}

/// The same, as the system's type.
pub(super) fn instant() -> std::time::Instant {
    instant_here().expect("this runs in a simulation")
}

/// The same, if this is a simulation.
pub(crate) fn instant_here() -> Option<std::time::Instant> {
    let show = |executor: &Executor| executor.origin + Duration::from_nanos(executor.local(executor.current, executor.now));
    EXECUTOR.with_borrow(|executor| executor.as_ref().map(show))
}

/// Throws the dice.
pub(super) fn dice<T>(throw: impl FnOnce(&mut Rng) -> T) -> T {
    with(|executor| throw(&mut executor.rng))
}

/// A duration of so many milliseconds at most.
pub(super) fn up_to(from_ms: usize, to_ms: usize) -> Duration {
    let micros = dice(|rng| from_ms * 1_000 + rng.below((to_ms - from_ms) * 1_000 + 1));
    Duration::from_micros(u64::try_from(micros).expect("a usize fits"))
}

/// Lets a node's clock run faster by so many millionths.
pub(super) fn drift(node: u64, millionths: i64) {
    with(|executor| executor.drifts.insert(node, millionths));
}

/// Stops a node where it stands, or lets it go on.
pub(super) fn pause(node: u64, stop: bool) {
    with(|executor| if stop { executor.paused.insert(node) } else { executor.paused.remove(&node) });
}

/// Ends all of a node's tasks.
pub(super) fn kill(node: u64) {
    let gone: Vec<Task> = with(|executor| executor.tasks.extract_if(.., |_, task| task.node == node).map(|(_, task)| task).collect());
    drop(gone);
}

/// Runs something on a node.
pub(super) fn spawn_on(node: u64, work: impl Future<Output = ()> + Send + 'static) {
    with(|executor| {
        let id = executor.next_task;
        executor.next_task += 1;
        let waker = Waker::from(Arc::new(Bell { task: id, ready: Arc::clone(&executor.ready) }));
        executor.tasks.insert(id, Task { node, work: Some(Box::pin(work)), waker });
        executor.ready.lock().unwrap().insert(id);
    });
}

/// Has one task go on; says whether there was one.
pub(super) fn step() -> bool {
    let picked = with(|executor| {
        let id = executor.pick()?;
        let task = executor.tasks.get_mut(&id)?;
        executor.current = task.node;
        Some((id, task.work.take().expect("a task does not poll itself"), task.waker.clone()))
    });
    let Some((id, mut work, waker)) = picked else { return false };
    let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
    let gone = with(|executor| {
        executor.current = WORLD;
        match (polled, executor.tasks.get_mut(&id)) {
            (Poll::Pending, Some(task)) => {
                task.work = Some(work);
                None
            }
            // It is through, or it has ended its own node.
            (_, _) => Some((executor.tasks.remove(&id), work)),
        }
    });
    drop(gone);
    true
}

/// Moves time to the next timer, at most to `until`; says whether there was a timer before that.
pub(super) fn advance(until: Duration) -> bool {
    let until = u64::try_from(until.as_nanos()).expect("centuries");
    let due = with(|executor| match executor.timers.first_key_value() {
        Some(((at, _), _)) if *at <= until => {
            executor.now = executor.now.max(*at);
            executor.timers.pop_first().map(|(_, waker)| waker)
        }
        _ => {
            executor.now = until;
            None
        }
    });
    due.map(Waker::wake).is_some()
}

impl Executor {
    /// One of the tasks that can go on.
    fn pick(&mut self) -> Option<u64> {
        let mut ready = self.ready.lock().unwrap();
        let tasks = &self.tasks;
        ready.retain(|id| tasks.contains_key(id));
        let paused = &self.paused;
        let able = || ready.iter().filter(|id| !paused.contains(&tasks[*id].node));
        let id = match able().count() {
            0 => return None,
            count => *able().nth(self.rng.below(count)).expect("one of them"),
        };
        ready.remove(&id);
        Some(id)
    }

    fn rate(&self, node: u64) -> i128 {
        MILLION + i128::from(self.drifts.get(&node).copied().unwrap_or(0))
    }

    fn local(&self, node: u64, at: u64) -> u64 {
        u64::try_from(i128::from(at) * self.rate(node) / MILLION).expect("time runs forward")
    }

    /// The first true time at which a node's clock shows this.
    fn shows(&self, node: u64, local: u64) -> u64 {
        let rate = self.rate(node);
        u64::try_from((i128::from(local) * MILLION + rate - 1) / rate).unwrap_or(u64::MAX)
    }
}

/// A node's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl openraft::Instant for Instant {
    fn now() -> Instant {
        // Openraft's suite of tests for storage looks at the clock, too, in no simulation.
        let in_simulation = EXECUTOR.with_borrow(Option::is_some);
        Instant(if in_simulation { nanos(local()) } else { 0 })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(duration)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, other: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(other.0))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Waits until the clock of the node that asked shows a time.
pub(crate) struct Sleep {
    node: u64,
    deadline: u64,
    timer: Option<(u64, u64)>,
}

impl Sleep {
    fn until(deadline: u64) -> Sleep {
        Sleep { node: with(|executor| executor.current), deadline, timer: None }
    }
}

pub(super) fn sleep(duration: Duration) -> Sleep {
    Sleep::until(nanos(local()).saturating_add(nanos(duration)))
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        with(|executor| {
            if executor.local(self.node, executor.now) >= self.deadline {
                return Poll::Ready(());
            }
            let timer = match self.timer {
                Some(timer) => timer,
                None => {
                    executor.next_timer += 1;
                    (executor.shows(self.node, self.deadline), executor.next_timer)
                }
            };
            self.timer = Some(timer);
            executor.timers.insert(timer, context.waker().clone());
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(timer) = self.timer else { return };
        // A thread that ends has no executor any more, and no timers.
        let _ = EXECUTOR.try_with(|executor| executor.borrow_mut().as_mut().and_then(|executor| executor.timers.remove(&timer)));
    }
}

/// A task has gone without an outcome.
#[derive(Debug)]
pub(crate) struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task has gone")
    }
}

/// A task's outcome.
pub(crate) struct Outcome<T>(oneshot::Receiver<T>);

impl<T> Future for Outcome<T> {
    type Output = Result<T, Gone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Gone>> {
        Pin::new(&mut self.0).poll(context).map(|outcome| outcome.map_err(|_| Gone))
    }
}

/// Time is up.
#[derive(Debug)]
pub(crate) struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time is up")
    }
}

/// Something that has its time.
pub(crate) struct Timeout<F> {
    work: Pin<Box<F>>,
    sleep: Sleep,
}

pub(super) fn timeout<F: Future>(duration: Duration, work: F) -> Timeout<F> {
    Timeout { work: Box::pin(work), sleep: sleep(duration) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<F::Output, Elapsed>> {
        if let Poll::Ready(output) = self.work.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

/// A part of `most`, by the seed.
pub(crate) fn part_of(most: Duration) -> Duration {
    most * dice(|rng| u32::try_from(rng.next() % 1_000).expect("below a thousand")) / 1_000
}

/// The executor's dice, as openraft wants them.
pub(crate) struct Dice;

impl rand_core_06::RngCore for Dice {
    fn next_u32(&mut self) -> u32 {
        u32::try_from(self.next_u64() >> 32).expect("32 bits")
    }

    fn next_u64(&mut self) -> u64 {
        // As above.
        let in_simulation = EXECUTOR.with_borrow(Option::is_some);
        if in_simulation { dice(Rng::next) } else { 4 }
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next_u64().to_le_bytes()[0];
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core_06::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

/// What openraft runs on in a simulation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runtime;

impl AsyncRuntime for Runtime {
    type JoinError = Gone;
    type JoinHandle<T: OptionalSend + 'static> = Outcome<T>;
    type Sleep = Sleep;
    type Instant = Instant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = Dice;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiver<T: OptionalSend> = oneshot::Receiver<T>;
    type OneshotReceiverError = oneshot::error::RecvError;

    fn spawn<T>(future: T) -> Outcome<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let node = with(|executor| executor.current);
        // Whoever spawned it may not care.
        spawn_on(node, async move { drop(sender.send(future.await)) });
        Outcome(receiver)
    }

    fn sleep(duration: Duration) -> Sleep {
        sleep(duration)
    }

    fn sleep_until(deadline: Instant) -> Sleep {
        Sleep::until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Timeout<F> {
        timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Instant, future: F) -> Timeout<F> {
        Timeout { work: Box::pin(future), sleep: Sleep::until(deadline.0) }
    }

    fn is_panic(_: &Gone) -> bool {
        false
    }

    fn thread_rng() -> Dice {
        Dice
    }

    fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, oneshot::Receiver<T>) {
        TokioRuntime::oneshot()
    }
}

/// Seconds with six digits, for traces.
pub(super) fn stamp() -> String {
    let now = nanos(now());
    format!("{:>3}.{:06}", now / NANOS, now % NANOS / 1_000)
}
