//! How a command ends: the exit codes, and errors printed as cause, context and next step.
//!
//! Commands return a [`Failure`]; only `main` prints one and turns it into an exit code.

use std::io;
use std::process::ExitCode;

use qwerq::Refusal;

/// Why the process ends with something other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: the reader of our output has gone, which is its right (`qwer-q queue list | head -1`).
    ClosedPipe,
    /// 1: tried and failed, or refused.
    Failed,
    /// 2: the command line, a variable or the settings file is wrong.
    Usage,
    /// 3: no broker was reached.
    Unreachable,
    /// 4, of `gen verify`: the broker's contracts are not those of the lock, and compatible.
    Differs,
    /// 5, of `gen verify`: they break the code that was made from the lock.
    Breaks,
}

/// An error as the user sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    cause: String,
    context: Vec<String>,
    next_step: Option<String>,
}

impl Failure {
    /// Exit code 1.
    pub(crate) fn failed(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, cause)
    }

    /// Exit code 2.
    pub(crate) fn usage(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, cause)
    }

    /// Exit code 3.
    pub(crate) fn unreachable(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Unreachable, cause)
    }

    /// Exit code 4.
    pub(crate) fn differs(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Differs, cause)
    }

    /// Exit code 5.
    pub(crate) fn breaks(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Breaks, cause)
    }

    fn new(exit: Exit, cause: impl Into<String>) -> Failure {
        Failure { exit, cause: cause.into(), context: Vec::new(), next_step: None }
    }

    /// Writing to stdout failed; a closed pipe is not an error.
    pub(crate) fn stdout(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Exit::ClosedPipe, "the output was closed"),
            _ => Failure::failed(format!("cannot write to stdout: {error}")),
        }
    }

    /// The broker answered with ERROR. `queue` is what the request was about, for errors that do not say.
    pub(crate) fn refused(refusal: &Refusal, queue: Option<&str>) -> Failure {
        let mut failure = Failure::failed(format!("{}: {}", refusal.name, refusal.message));
        for (name, value) in &refusal.details {
            let said = name == "queue" && refusal.message.contains(value);
            if !said {
                failure = failure.context(format!("{name}: {value}"));
            }
        }
        match next_step(refusal, queue) {
            Some(step) => failure.next_step(step),
            None => failure,
        }
    }

    /// Adds a line that says what was being done, or with what.
    pub(crate) fn context(mut self, line: impl Into<String>) -> Failure {
        self.context.push(line.into());
        self
    }

    /// Says what the user can do about it.
    pub(crate) fn next_step(mut self, step: impl Into<String>) -> Failure {
        self.next_step = Some(step.into());
        self
    }

    /// The text that `main` prints: `error: cause`, then indented context, then the next step.
    pub(crate) fn report(&self) -> String {
        let mut text = format!("error: {}\n", self.cause);
        for line in &self.context {
            for part in line.lines() {
                text.push_str("  ");
                text.push_str(part);
                text.push('\n');
            }
        }
        if let Some(step) = &self.next_step {
            text.push_str("  next: ");
            text.push_str(step);
            text.push('\n');
        }
        text
    }

    /// The same in one sentence, for whoever is not at a terminal.
    pub(crate) fn sentence(&self) -> String {
        let context = self.context.iter().map(|line| format!(": {line}"));
        let next = self.next_step.iter().map(|step| format!("; {step}"));
        std::iter::once(self.cause.clone()).chain(context).chain(next).collect()
    }

    /// The same for one of many: `error: line 7: cause`.
    pub(crate) fn report_at(&self, place: &str) -> String {
        let cause = format!("{place}: {}", self.cause);
        Failure { cause, ..self.clone() }.report()
    }

    /// Whether there is anything to say.
    pub(crate) fn is_silent(&self) -> bool {
        self.exit == Exit::ClosedPipe
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.exit {
            Exit::ClosedPipe => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Differs => 4,
            Exit::Breaks => 5,
        })
    }
}

/// What to do about a refusal, where the code leaves no doubt.
fn next_step(refusal: &Refusal, queue: Option<&str>) -> Option<String> {
    use qwerq_proto::ErrorCode as Code;
    if refusal.message.contains("`qwer-q ") {
        // The broker has said it.
        return None;
    }
    let queue = refusal.detail("queue").or(queue).unwrap_or("QUEUE");
    let step = match refusal.known()? {
        Code::QueueNotFound if queue.ends_with(".dlq") => {
            format!("`qwer-q dlq list -q {}` is empty until then", queue.trim_end_matches(".dlq"))
        }
        Code::QueueNotFound => {
            format!("`qwer-q queue list` shows the queues; `qwer-q queue create {queue}` makes one")
        }
        Code::QueueExists => format!("`qwer-q queue info {queue}` shows the options in force; `qwer-q queue update` changes them"),
        Code::GroupNotFound => format!("`qwer-q group list -q {queue}` shows the groups"),
        Code::GroupExists => format!("`qwer-q group info GROUP -q {queue}` shows where it is; `qwer-q group seek` moves it"),
        Code::GroupRequired => "name a consumer group with --group".to_owned(),
        Code::WrongMode => format!("`qwer-q queue info {queue}` shows the mode"),
        Code::QueueFull => format!("consume from the queue, or see `qwer-q queue info {queue}`"),
        Code::MessageTooLarge => format!("send less, or raise it with `qwer-q queue update {queue} --max-message-bytes SIZE`"),
        Code::DedupFull => format!("wait until keys leave the window, or raise it with `qwer-q queue update {queue} --dedup-max-keys N`"),
        Code::StaleLease => "the message is delivered again; settle that delivery".to_owned(),
        Code::Unauthorized => "give the broker's token by --auth-token or QWERQ_AUTH_TOKEN".into(),
        Code::SchemaViolation => {
            format!("correct the payload; `qwer-q schema get -q {queue}` shows the contract")
        }
        Code::ContractRequired | Code::SchemaNotFound => {
            format!("`qwer-q schema register -q {queue} -p FILE -m TYPE` gives it a contract")
        }
        Code::TypeNotFound => "give the full name with its package, such as shop.v1.Order".into(),
        Code::ReservedQueue => "publish to the queue itself; only the broker writes to .dlq".into(),
        Code::Overloaded | Code::Draining | Code::NotLeader | Code::StorageFull => "try again later".to_owned(),
        Code::Internal => "read the broker's log".to_owned(),
        code => format!("see docs/errors/{}.md", code.name()),
    };
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qwerq_proto::ErrorCode;

    #[test]
    fn a_refusal_reads_as_cause_context_and_next_step() {
        let violation = ErrorCode::SchemaViolation
            .with("orders: field `quantity` has wire type 2, not 0")
            .detail("queue", "orders")
            .detail("path", "lines[3].quantity")
            .detail("offset", 17);
        assert_eq!(
            Failure::from(qwerq::Error::from(violation)).report(),
            "error: schema-violation: orders: field `quantity` has wire type 2, not 0\n  \
             offset: 17\n  path: lines[3].quantity\n  \
             next: correct the payload; `qwer-q schema get -q orders` shows the contract\n"
        );
    }

    #[test]
    fn a_next_step_that_the_broker_names_is_not_repeated() {
        let missing = ErrorCode::QueueNotFound.with("there is no queue `a`; see `qwer-q queue list`").detail("queue", "a");
        let report = Failure::from(qwerq::Error::from(missing)).report();
        assert_eq!(report, "error: queue-not-found: there is no queue `a`; see `qwer-q queue list`\n");
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let gone = Failure::stdout(&io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(gone.is_silent());
        assert!(!Failure::stdout(&io::Error::other("disk full")).is_silent());
    }
}
