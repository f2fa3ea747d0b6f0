//! Buildah with a storage of its own under `target/`: images are built, mounted and described by it, without a daemon.
//!
//! It runs commands and reads their output; what an image is for is decided elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::step::root;

/// Buildah and where it stores.
pub(super) struct Buildah {
    storage: PathBuf,
    driver: String,
}

/// What the image says about how it is started.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Config {
    pub(super) user: String,
    #[serde(default)]
    pub(super) env: Vec<String>,
    #[serde(default)]
    pub(super) entrypoint: Vec<String>,
    #[serde(default)]
    pub(super) cmd: Vec<String>,
    pub(super) healthcheck: Healthcheck,
    #[serde(default)]
    pub(super) volumes: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    pub(super) exposed_ports: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    pub(super) labels: serde_json::Map<String, serde_json::Value>,
}

/// How the image is asked whether it is well.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Healthcheck {
    /// `CMD`, then the command's words.
    pub(super) test: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    docker: Docker,
}

#[derive(Deserialize)]
struct Docker {
    config: Config,
}

impl Buildah {
    /// A storage under `folder`.
    pub(super) fn new(folder: &Path, driver: &str) -> Buildah {
        Buildah { storage: folder.join("storage"), driver: driver.to_owned() }
    }

    /// Builds the Dockerfile of the workspace; `options` are further ones of `buildah build`.
    pub(super) fn build(&self, tag: &str, options: &[String]) -> Result<()> {
        let mut command = self.command("bud");
        // Docker's format is the one that knows health checks. Public images are neither there nor wanted: --pull-never.
        command.args(["--isolation", "chroot", "--pull-never", "--format", "docker", "--tag", tag]).args(options).arg(root());
        succeed(&mut command)
    }

    /// Makes an image named `tag` of a folder.
    pub(super) fn import(&self, tag: &str, folder: &Path, environment: &[String]) -> Result<()> {
        let container = self.output("from", &["scratch"])?;
        succeed(self.command("add").args(["--quiet", &container]).arg(folder))?;
        let environment = environment.iter().flat_map(|variable| ["--env", variable]);
        succeed(self.command("config").args(environment).arg(&container))?;
        succeed(self.command("commit").args(["--quiet", "--rm", &container, tag]))
    }

    /// Whether there is an image of that name.
    pub(super) fn has(&self, tag: &str) -> Result<bool> {
        Ok(self.command("inspect").args(["--type", "image", tag]).output()?.status.success())
    }

    /// How the image wants to be started.
    pub(super) fn config(&self, tag: &str) -> Result<Config> {
        let json = self.output("inspect", &["--type", "image", tag])?;
        let inspected: Inspected = serde_json::from_str(&json).context("`buildah inspect` says something else")?;
        Ok(inspected.docker.config)
    }

    /// Bytes of the image's layers, and nothing that they are built on: the image has no base.
    pub(super) fn bytes(&self, tag: &str) -> Result<u64> {
        let json = self.output("images", &["--json", tag])?;
        let images: Vec<serde_json::Value> = serde_json::from_str(&json)?;
        let size = images.first().and_then(|image| image["size"].as_str()).context("`buildah images` says no size")?;
        let (number, unit) = size.split_once(' ').context("a size is a number and a unit")?;
        let unit = match unit {
            "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            _ => 1.0,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a size of an image fits, and fractions of a byte are noise")]
        Ok((number.parse::<f64>()? * unit) as u64)
    }

    /// A container's name and the folder where its files are; removed by [`Buildah::remove`].
    pub(super) fn container(&self, tag: &str) -> Result<(String, PathBuf)> {
        let container = self.output("from", &["--pull-never", tag])?;
        let mounted = self.output("mount", &[&container])?;
        Ok((container, PathBuf::from(mounted)))
    }

    /// Removes a container and its files.
    pub(super) fn remove(&self, container: &str) -> Result<()> {
        self.output("rm", &[container]).map(drop)
    }

    /// Unmounts what buildah leaves mounted, so that the folder can be removed as any other.
    pub(super) fn unmount(&self) -> Result<()> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
        let ours: Vec<&Path> = places.filter(|place| place.starts_with(&self.storage)).collect();
        ours.into_iter().rev().try_for_each(|place| succeed(Command::new("umount").arg(place)))
    }

    fn output(&self, subcommand: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(subcommand);
        let output = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "`buildah {subcommand} {}` failed: {}", arguments.join(" "), output.status);
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--storage-driver").arg(&self.driver);
        for (option, folder) in [("--root", "layers"), ("--runroot", "run")] {
            command.arg(option).arg(self.storage.join(folder));
        }
        command.arg(subcommand);
        command
    }
}

/// Whether the system mounts an overlay on this folder. Inside a container it often does not, since the folder is on one already.
pub(super) fn has_overlay(folder: &Path) -> Result<bool> {
    let probe = folder.join("probe");
    for part in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(probe.join(part))?;
    }
    let parts = "lowerdir=lower,upperdir=upper,workdir=work";
    let mut mount = Command::new("unshare");
    mount.args(["--mount", "mount", "-t", "overlay", "overlay", "-o", parts, "merged"]).current_dir(&probe);
    let mounted = mount.stdin(Stdio::null()).stderr(Stdio::null()).status()?.success();
    fs::remove_dir_all(&probe)?;
    Ok(mounted)
}

pub(super) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
