//! The stand-in for the public Rust image that the Dockerfile builds on: Debian's packages by debootstrap, and this machine's toolchain.
//!
//! It has the public image's name, so the Dockerfile is used as it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::buildah::{Buildah, succeed};
use crate::step::root;

/// Cargo's folder in the public image and in this one.
pub(super) const CARGO_HOME: &str = "/usr/local/cargo";

/// What the public image has of Debian, as far as a build needs it.
const PACKAGES: &str = "gcc,libc6-dev,ca-certificates";

/// Makes the image unless it is there.
pub(super) fn stand_in(buildah: &Buildah, folder: &Path) -> Result<()> {
    let name = name()?;
    if buildah.has(&name)? {
        return Ok(());
    }
    let (_, release) = name.rsplit_once('-').context("the name ends with the release of Debian")?;
    let files = folder.join("base");
    if files.exists() {
        // One that was interrupted leaves its proc mounted.
        if files.join("proc/self").exists() {
            succeed(Command::new("umount").arg(files.join("proc")))?;
        }
        fs::remove_dir_all(&files)?;
    }
    succeed(Command::new("debootstrap").args(["--variant=minbase", &format!("--include={PACKAGES}"), release]).arg(&files))?;
    let cached = files.join("var/cache/apt/archives");
    fs::remove_dir_all(&cached).with_context(|| format!("emptying {}", cached.display()))?;

    let toolchain = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output()?;
    let toolchain = String::from_utf8(toolchain.stdout)?;
    let home = files.join(CARGO_HOME.trim_start_matches('/'));
    fs::create_dir_all(home.join("registry"))?;
    for part in ["bin", "lib"] {
        succeed(Command::new("cp").arg("-a").arg(Path::new(toolchain.trim()).join(part)).arg(&home))?;
    }
    let environment =
        [format!("CARGO_HOME={CARGO_HOME}"), format!("PATH={CARGO_HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")];
    buildah.import(&name, &files, &environment)?;
    fs::remove_dir_all(&files)?;
    Ok(())
}

/// The full name of the image that the Dockerfile's first stage is built from.
fn name() -> Result<String> {
    let dockerfile = fs::read_to_string(root().join("Dockerfile"))?;
    let from = dockerfile.lines().find_map(|line| line.strip_prefix("FROM ")).context("a Dockerfile has a FROM")?;
    let name = from.split(' ').next().unwrap_or_default();
    ensure!(name.starts_with("rust:"), "the first stage is built from {name}, and the stand-in is one for Rust's image");
    Ok(format!("docker.io/library/{name}"))
}
