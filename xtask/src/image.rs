//! `cargo xtask image`: builds the container image from the Dockerfile with whatever engine is installed.

use anyhow::{Result, bail};

use crate::step::{Outcome, Step, is_installed};

/// The engines that are tried, in this order.
const ENGINES: &[&str] = &["docker", "podman", "buildah"];

/// Arguments of `image`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the image.
    #[arg(long, default_value = "qwer-q")]
    tag: String,
}

/// Builds the image.
///
/// # Errors
/// When there is no engine, or the build fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(engine) = ENGINES.iter().find(|engine| is_installed(engine)) else {
        bail!("no container engine is installed: tried {}", ENGINES.join(", "));
    };
    match Step::new("image", engine, &["build", "--tag", &args.tag, "."]).run()? {
        Outcome::Failed => bail!("{engine} could not build the image"),
        Outcome::Passed | Outcome::Skipped => Ok(()),
    }
}
