//! A small disk that a test may fill: memory, mounted where only a process of its own sees it. It is gone with that process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::broker::Broker;
use super::tool;

/// Size of the disk.
const SIZE: u64 = 192 << 20;

/// A disk of its own; unmounted when dropped.
pub(crate) struct SmallDisk {
    /// It ends with its stdin.
    holder: Child,
    mounted: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`: skipped, since this user can mount nothing.
    pub(crate) fn mount() -> Option<SmallDisk> {
        if !tool::are_installed(&["unshare", "nsenter", "mount"]) {
            return None;
        }
        let mounted = tempfile::tempdir().expect("a temporary directory");
        let mount = format!("mount -t tmpfs -o size={SIZE} qwer-q-test \"$1\" && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "sh", "-c", &mount, "sh"]).arg(mounted.path());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is installed");
        let mut said = String::new();
        let stdout = holder.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut said).expect("stdout is text");
        let disk = SmallDisk { holder, mounted };
        (said == "mounted\n" || tool::skipped("this user cannot mount a disk of its own")).then_some(disk)
    }

    /// A broker whose data directory is on the disk.
    pub(crate) fn broker(&self) -> Broker {
        let holder = self.holder.id().to_string();
        let mut runner = vec!["nsenter", "--target", &holder, "--mount"];
        if !is_root() {
            runner.extend(["--user", "--preserve-credentials"]);
        }
        Broker::start_by(runner.into_iter().map(str::to_owned).collect(), self.mounted.path().join("data"))
    }

    /// Where others see the disk. The way leads through a link that may be followed, and not resolved.
    fn path_outside(&self) -> PathBuf {
        let path = self.mounted.path().strip_prefix("/").expect("a temporary directory has a whole path");
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(path)
    }

    /// Leaves so many bytes free.
    pub(crate) fn fill_but(&self, left: u64) {
        let disk = rustix::fs::statvfs(self.path_outside()).expect("the disk is there");
        let taken = (disk.f_bavail * disk.f_frsize).checked_sub(left).expect("more is free");
        let ballast = File::create(self.path_outside().join("ballast")).expect("the disk takes a file");
        rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, taken).expect("so much is free");
    }

    /// Takes back what [`SmallDisk::fill_but`] took.
    pub(crate) fn empty(&self) {
        fs::remove_file(self.path_outside().join("ballast")).expect("the disk was filled");
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
