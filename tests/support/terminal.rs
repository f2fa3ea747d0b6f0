//! A terminal of a certain width that a command writes to.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// What a command shows on a terminal that is so many columns wide, line by line and with its colours, what it says on stderr too.
pub(crate) fn shown(mut command: Command, columns: u16) -> Vec<String> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("the system has terminals left");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it is ours");
    let name = ptsname(&ours, Vec::new()).expect("it has a name");
    // Only the command may hold it, and nobody that another thread starts meanwhile.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty()).expect("it is unlocked");
    tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("it is a terminal");
    let errors = theirs.try_clone().expect("descriptors are left");
    let mut child = command.stdin(Stdio::null()).stdout(theirs).stderr(errors).spawn().expect("the command starts");
    // Our copy of the other end; when the last one closes, reading ends with an error or with nothing.
    drop(command);
    let text = all_of(ours);
    assert!(child.wait().expect("the child was ours").success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

fn all_of(terminal: OwnedFd) -> String {
    let (mut file, mut text) = (File::from(terminal), Vec::new());
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = file.read(&mut chunk) {
        text.extend_from_slice(&chunk[..read]);
    }
    String::from_utf8(text).expect("it shows text")
}

/// A line without its colours.
pub(crate) fn without_colours(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}
