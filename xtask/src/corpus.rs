//! `cargo xtask corpus`: public .proto files that nobody here wrote, as input for tests of registry, validator and compiler.
//!
//! They come from the npm registry by pinned version and are checked against a pinned digest, since a corpus that changes
//! under a test proves nothing. They land in `target/corpus/<package>-<version>/` and are downloaded once. Tests skip by name
//! without them, except in CI.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::step::{Step, in_ci, is_installed, run_all, target_dir};

/// One npm package that holds .proto files.
struct Package {
    /// The npm name.
    name: &'static str,
    version: &'static str,
    /// SHA-256 of the package's tarball, in hex.
    sha256: &'static str,
}

const PACKAGES: &[Package] = &[
    Package { name: "google-proto-files", version: "5.0.3", sha256: "73a90e656be2ef3ba03fabc82bbb3b5213d29bd4ceb41e25364250d25606200c" },
    Package { name: "@grpc/grpc-js-xds", version: "1.14.1", sha256: "fd27db4119c139d5b59e8fe99d109bed04bff491302743ae3bf096667105c607" },
];

/// Arguments of `corpus`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also register every file of the corpus with a broker, where the tests take a sample.
    #[arg(long)]
    full: bool,
}

/// Downloads the corpus, and with `--full` runs over all of it.
///
/// # Errors
/// As [`run`], and when a schema does not come back as it was registered.
pub(crate) fn run_task(args: &Args) -> Result<()> {
    run()?;
    if !args.full {
        return Ok(());
    }
    let test = ["test", "--package", "qwer-q", "--release", "--test", "schema_corpus"];
    run_all(vec![Step::cargo("all of the corpus", &test).env("QWERQ_CORPUS_FULL", "1")])
}

/// Downloads what is not there yet. Without npm or tar it says so and leaves the corpus out; in CI that is an error.
///
/// # Errors
/// When a package cannot be downloaded, or is not the one that was pinned.
pub(crate) fn run() -> Result<()> {
    let corpus = target_dir().join("corpus");
    for package in PACKAGES {
        let folder = corpus.join(package.folder_name());
        if folder.is_dir() {
            continue;
        }
        for tool in ["npm", "tar"] {
            if !is_installed(tool) {
                ensure!(!in_ci(), "the corpus needs `{tool}`, which is not installed");
                println!("==> corpus: Skipped: `{tool}` is not installed");
                return Ok(());
            }
        }
        package.download(&corpus, &folder).with_context(|| format!("corpus package {}", package.name))?;
        println!("==> corpus: {} in {}", package.name, folder.display());
    }
    Ok(())
}

impl Package {
    /// The folder's name: the npm name with its scope's slash replaced, a dash, the version.
    fn folder_name(&self) -> String {
        let name = self.name.trim_start_matches('@').replace('/', "-");
        format!("{name}-{}", self.version)
    }

    /// Downloads, checks and unpacks the package; `folder` appears whole or not at all.
    fn download(&self, corpus: &Path, folder: &Path) -> Result<()> {
        let scratch = corpus.join(".unpacking");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        let package = format!("{}@{}", self.name, self.version);
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--ignore-scripts", &package]).current_dir(&scratch).stdout(Stdio::null());
        succeed(&mut npm)?;
        let tarball = format!("{}.tgz", self.folder_name());
        let bytes = fs::read(scratch.join(&tarball)).with_context(|| format!("npm pack left no {tarball}"))?;
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        ensure!(digest == self.sha256, "{tarball} has SHA-256 {digest}, pinned is {}", self.sha256);
        succeed(Command::new("tar").args(["-xzf", &tarball]).current_dir(&scratch))?;
        fs::rename(scratch.join("package"), folder).context("the tarball holds a folder `package`")?;
        fs::remove_dir_all(&scratch)?;
        Ok(())
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}
