//! `cargo xtask image`: builds the container image from the Dockerfile, without a container engine, and tries what it promises.
//!
//! By default the build stage is left out and its result, the static binary, is made here; `--full` runs it too, over a stand-in for the
//! public Rust image. Nothing else differs from `docker build`. What is tried is in [`trial`]; docs/operating.md says what stands in for what.

mod base;
mod buildah;
mod container;
mod trial;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::step::{Outcome, Step, in_ci, is_installed, target_dir};
use crate::tally::Tally;
use buildah::Buildah;

/// What builds the image, and what starts it as an engine would.
const TOOLS: &[&str] = &["buildah", "unshare", "nsenter", "chroot", "mount", "ip"];

/// Arguments of `image`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the image.
    #[arg(long, default_value = "qwer-q")]
    tag: String,
    /// Runs the build stage of the Dockerfile too.
    #[arg(long)]
    full: bool,
    /// Cargo's profile: by default what the Dockerfile says with `--full`, and `release`, which is there from the tests, without.
    #[arg(long)]
    profile: Option<String>,
    /// How buildah stores layers: `vfs` copies every file for each; with `--full` it is `overlay` where the system has that.
    #[arg(long)]
    storage_driver: Option<String>,
}

impl Default for Args {
    fn default() -> Args {
        Args { tag: "qwer-q".to_owned(), full: false, profile: None, storage_driver: None }
    }
}

/// Builds the image and tries it.
///
/// # Errors
/// When a tool is missing, the build fails, or the image breaks a promise.
pub(crate) fn run_task(args: &Args) -> Result<()> {
    match run(args, &mut Tally::default())? {
        Outcome::Skipped => bail!("nothing was built"),
        Outcome::Passed | Outcome::Failed => Ok(()),
    }
}

/// The same as one of the tests: each promise counts as one. Without the tools it is skipped by name, in CI that is an error.
///
/// # Errors
/// As [`run_task`].
pub(crate) fn run(args: &Args, tally: &mut Tally) -> Result<Outcome> {
    if let Some(missing) = missing(args) {
        ensure!(!in_ci(), "the image cannot be tried: {missing}");
        println!("==> image: Skipped: {missing}");
        return Ok(Outcome::Skipped);
    }
    println!("==> image");
    let began = Instant::now();
    let driver = match &args.storage_driver {
        Some(driver) => driver.as_str(),
        // The toolchain alone is a gigabyte.
        None if args.full && buildah::has_overlay(&folder())? => "overlay",
        None => "vfs",
    };
    let buildah = Buildah::new(&folder(), driver);
    let tried = build_and_try(&buildah, args, tally, began);
    buildah.unmount()?;
    tried?;
    println!("<== image: Passed in {:.1} s", began.elapsed().as_secs_f64());
    Ok(Outcome::Passed)
}

fn build_and_try(buildah: &Buildah, args: &Args, tally: &mut Tally, began: Instant) -> Result<()> {
    let options = match args.full {
        true => {
            base::stand_in(buildah, &folder())?;
            let registry = cargo_home()?.join("registry");
            let profile = args.profile.iter().flat_map(|profile| ["--build-arg".to_owned(), format!("PROFILE={profile}")]);
            // Layers are kept, so that a second run has the dependencies already.
            ["--layers".to_owned(), "--volume".to_owned(), mounted(&registry)].into_iter().chain(profile).collect()
        }
        false => {
            let binary = binary(args.profile.as_deref().unwrap_or("release"))?;
            ["--build-context".to_owned(), format!("build={}", build_stage(&binary)?.display())].to_vec()
        }
    };
    buildah.build(&args.tag, &options)?;
    println!("built {} in {:.1} s", args.tag, began.elapsed().as_secs_f64());
    trial::run(buildah, &args.tag, tally)
}

/// Where layers, contexts and volumes are.
fn folder() -> PathBuf {
    target_dir().join("image")
}

/// What keeps this machine from building or starting containers.
fn missing(args: &Args) -> Option<String> {
    let tools = TOOLS.iter().chain(if args.full { ["debootstrap"].iter() } else { [].iter() });
    if let Some(tool) = tools.into_iter().find(|tool| !is_installed(tool)) {
        return Some(format!("`{tool}` is not installed"));
    }
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    (!is_root).then(|| "only root can start containers without an engine".to_owned())
}

/// The binary as the Dockerfile links it.
fn binary(profile: &str) -> Result<PathBuf> {
    let cargo = ["rustc", "--profile", profile, "--package", "qwer-q", "--bin", "qwer-q", "--"];
    let arguments = [cargo.as_slice(), &["-C", "target-feature=+crt-static", "-C", "strip=symbols"]].concat();
    ensure!(Step::cargo("static binary", &arguments).run()? == Outcome::Passed, "the binary cannot be linked statically");
    let built = target_dir().join(if profile == "dev" { "debug" } else { profile }).join("qwer-q");
    // Cargo puts another one in its place when the tests are built again.
    let kept = folder().join("qwer-q");
    fs::create_dir_all(folder())?;
    fs::copy(&built, &kept).with_context(|| format!("copying {}", built.display()))?;
    Ok(kept)
}

/// What the Dockerfile's stage `build` leaves in its /out.
fn build_stage(binary: &Path) -> Result<PathBuf> {
    let context = folder().join("build");
    fs::create_dir_all(context.join("out/empty"))?;
    fs::copy(binary, context.join("out/qwer-q"))?;
    Ok(context)
}

fn cargo_home() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    home.context("neither CARGO_HOME nor HOME is set")
}

/// The crates that this machine has, where cargo looks for them in the image.
fn mounted(registry: &Path) -> String {
    format!("{}:{}/registry", registry.display(), base::CARGO_HOME)
}
