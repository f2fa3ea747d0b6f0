//! A container without an engine: the image's files as the root, its user, its variables and its command as PID 1, in namespaces of its
//! own for processes, mounts and network.
//!
//! What an engine adds (limits, seccomp, port forwarding) is not here; clients come in through the network namespace.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::buildah::Config;
use crate::step::find;

/// What runs as root until the image's command takes its place: the network device, files and folders that every engine provides, and the
/// volume; then the root is made read-only, if that is asked for. Arguments: root, volume, `ro` or `rw`, chroot and its arguments. The variables are the
/// image's from the beginning, so what is needed here is looked up in a subshell.
const SETUP: &str = r#"
root=$1 volume=$2 access=$3; shift 3
(
  PATH=/usr/sbin:/usr/bin:/sbin:/bin
  ip link set lo up
  mount --bind "$root" "$root"
  mkdir -p "$root/proc" "$root/dev" "$root/etc"
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/dev"
  for device in null zero random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  echo '127.0.0.1 localhost' > "$root/etc/hosts"
  mount --bind "$volume" "$root/data"
  mount -o "remount,bind,$access" "$root"
)
exec "$@"
"#;

/// What a container may do with its own files; the volume is another matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    /// As `docker run --read-only`.
    ReadOnly,
}

/// The files of an image and how it wants to be started.
pub(super) struct Image {
    /// Where the files are.
    pub(super) root: PathBuf,
    /// What the image says.
    pub(super) config: Config,
}

/// A running container; killed when dropped.
pub(super) struct Container<'a> {
    image: &'a Image,
    /// Outside; its one child is the container's PID 1.
    unshare: Child,
    pid: String,
}

impl Image {
    /// The folder of a volume; a new one belongs to whom it belongs in the image, as engines do it.
    pub(super) fn volume(&self, folder: &Path) -> Result<PathBuf> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        let model = self.root.join("data").metadata()?;
        chown(folder, Some(model.uid()), Some(model.gid()))?;
        Ok(folder.to_owned())
    }

    /// What `docker run` runs, with the volume at /data.
    pub(super) fn command(&self, volume: &Path, access: Access) -> Result<Command> {
        let mut command = self.tool("unshare")?;
        command.args(["--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child"]);
        command.arg(tool("sh")?).args(["-euc", SETUP, "setup"]).arg(&self.root).arg(volume).arg(match access {
            Access::ReadWrite => "rw",
            Access::ReadOnly => "ro",
        });
        let words = self.config.entrypoint.iter().chain(&self.config.cmd);
        command.args(self.chroot(words.map(String::as_str))?);
        Ok(command)
    }

    /// The words that run a command of the image as the image's user.
    fn chroot<'a>(&self, mut words: impl Iterator<Item = &'a str>) -> Result<Vec<OsString>> {
        let program = words.next().context("the image has no command")?;
        let path = self.config.env.iter().find_map(|variable| variable.strip_prefix("PATH=")).unwrap_or_default();
        let found = path.split(':').map(|folder| format!("{folder}/{program}")).find(|file| self.root.join(&file[1..]).is_file());
        let program = found.with_context(|| format!("the image's PATH, {path:?}, leads to no {program}"))?;
        let mut chroot = vec![tool("chroot")?.into(), format!("--userspec={}", self.config.user).into(), "--groups=".into()];
        chroot.extend([self.root.as_os_str().to_owned(), program.into()]);
        chroot.extend(words.map(OsString::from));
        Ok(chroot)
    }

    /// A tool of this machine with the image's variables and no others.
    fn tool(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(tool(name)?);
        command.env_clear().envs(self.config.env.iter().filter_map(|variable| variable.split_once('='))).stdin(Stdio::null());
        Ok(command)
    }

    /// Starts a container and waits until the broker is ready.
    pub(super) fn start(&self, volume: &Path, access: Access, log: &Path) -> Result<Container<'_>> {
        let mut unshare = self.command(volume, access)?.stdout(Stdio::piped()).stderr(File::create(log)?).spawn()?;
        let mut line = String::new();
        BufReader::new(unshare.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
        if !line.contains("is ready: broker 0.0.0.0:9876, http 0.0.0.0:9877") {
            // It may have ended already.
            let _ = unshare.kill();
            bail!("the container is not ready but says {line:?} and {}", fs::read_to_string(log)?.trim());
        }
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", unshare.id()))?;
        let pid = children.trim().to_owned();
        ensure!(!pid.is_empty() && !pid.contains(' '), "unshare has one child, not {children:?}");
        Ok(Container { image: self, unshare, pid })
    }
}

impl Container<'_> {
    /// A command of the image in the container, as `docker exec`.
    pub(super) fn exec(&self, words: &[String]) -> Result<Command> {
        let mut command = self.image.tool("nsenter")?;
        command.args(["--target", &self.pid, "--mount", "--net", "--pid"]);
        command.args(self.image.chroot(words.iter().map(String::as_str))?);
        Ok(command)
    }

    /// A program of this machine that reaches the container's ports on its localhost, as through `docker run -p`.
    pub(super) fn client(&self, program: &Path, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(tool("nsenter")?);
        command.args(["--target", &self.pid, "--net"]).arg(program).args(arguments).env_clear().stdin(Stdio::null());
        Ok(command)
    }

    /// The numbers that the container's PID 1 has for itself and its user.
    pub(super) fn identity(&self) -> Result<(String, String)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
        let pid = field("NSpid:").split_whitespace().last().unwrap_or_default().to_owned();
        let uid = field("Uid:").split_whitespace().next().unwrap_or_default().to_owned();
        Ok((pid, uid))
    }

    /// SIGTERM, as `docker stop`; how it ended and how long that took. What has not ended after `patience` is an error.
    pub(super) fn stop(mut self, patience: Duration) -> Result<(ExitStatus, Duration)> {
        let began = Instant::now();
        ensure!(Command::new("kill").args(["-TERM", &self.pid]).status()?.success(), "the container's process has gone");
        loop {
            if let Some(status) = self.unshare.try_wait()? {
                return Ok((status, began.elapsed()));
            }
            ensure!(began.elapsed() < patience, "it still runs {patience:?} after SIGTERM");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // It may have ended already; --kill-child takes what is inside along.
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// Where a tool of this machine is: the image's variables do not lead there.
fn tool(name: &str) -> Result<PathBuf> {
    find(name).with_context(|| format!("`{name}` is not installed"))
}
