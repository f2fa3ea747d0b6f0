//! `cargo xtask corpus`: public .proto files that nobody here wrote, as input for tests of registry, validator and compiler.
//!
//! They come from npm and PyPI by pinned version and are checked against a pinned digest, since a corpus that changes
//! under a test proves nothing. They land in `target/corpus/<package>-<version>/` and are downloaded once; of wheels only the
//! .proto files are kept. Tests skip by name without them, except in CI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::step::{Step, in_ci, is_installed, run_all, target_dir};

/// Where a package comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registry {
    Npm,
    /// The wheel for Linux on x86-64 or for any platform, whatever this machine is: nothing in it is run.
    PyPi,
}

/// One package that holds .proto files.
struct Package {
    registry: Registry,
    name: &'static str,
    version: &'static str,
    /// SHA-256 of the package's tarball or wheel, in hex.
    sha256: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        registry: Registry::Npm,
        name: "google-proto-files",
        version: "5.0.3",
        sha256: "73a90e656be2ef3ba03fabc82bbb3b5213d29bd4ceb41e25364250d25606200c",
    },
    Package {
        registry: Registry::Npm,
        name: "@grpc/grpc-js-xds",
        version: "1.14.1",
        sha256: "fd27db4119c139d5b59e8fe99d109bed04bff491302743ae3bf096667105c607",
    },
    Package {
        registry: Registry::Npm,
        name: "@google-cloud/aiplatform",
        version: "6.11.0",
        sha256: "9b6df7d47eef0308cd260e04d76f861058826f520f81c1bceeed8a0b29615c5e",
    },
    Package {
        registry: Registry::PyPi,
        name: "temporalio",
        version: "1.35.0",
        sha256: "45b5438f41ab154eda4eea40069df2fa8779cb8f5c27f266b917a700bfba8bb8",
    },
    Package {
        registry: Registry::PyPi,
        name: "googleapis_common_protos",
        version: "1.76.0",
        sha256: "59e13344a9f3651aa201a03e2bee815a3bf43a4baf1f9ff8a9b62a840ce25fac",
    },
    Package {
        registry: Registry::PyPi,
        name: "grpcio_tools",
        version: "1.85.1",
        sha256: "38b8307a9e7f36678dad9d2590a5e849238a7c2d1178a433fbdd46ab3f6aa452",
    },
];

/// Arguments of `corpus`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also try every file of the corpus, where the tests take a sample: the text of TypeScript and Go, compilers of all three
    /// languages, and a broker that each is registered with. Takes an hour and 12 GB of memory.
    #[arg(long)]
    full: bool,
}

/// Downloads the corpus, and with `--full` runs over all of it.
///
/// # Errors
/// As [`run`], and when a test fails.
pub(crate) fn run_task(args: &Args) -> Result<()> {
    run()?;
    if !args.full {
        return Ok(());
    }
    let text = ["test", "--package", "qwerq-codegen", "--release", "--test", "corpus", "--", "--nocapture", "--test-threads", "1"];
    let broker = ["test", "--package", "qwer-q", "--release", "--test", "schema_corpus"];
    run_all(vec![
        Step::cargo("text and compilers on all of the corpus", &text).env("QWERQ_CORPUS", "full"),
        Step::cargo("a broker with all of the corpus", &broker).env("QWERQ_CORPUS", "full"),
    ])
}

/// Downloads what is not there yet. Without its tools it says so and leaves the corpus out; in CI that is an error.
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
        for tool in package.registry.tools() {
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

impl Registry {
    /// What a download takes.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Registry::Npm => &["npm", "tar"],
            Registry::PyPi => &["python3"],
        }
    }
}

impl Package {
    /// The folder's name: the name with its scope's slash replaced, a dash, the version.
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
        let unpacked = match self.registry {
            Registry::Npm => self.npm(&scratch)?,
            Registry::PyPi => self.wheel(&scratch)?,
        };
        fs::rename(unpacked, folder).context("nothing was unpacked")?;
        fs::remove_dir_all(&scratch)?;
        Ok(())
    }

    fn npm(&self, scratch: &Path) -> Result<PathBuf> {
        let package = format!("{}@{}", self.name, self.version);
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--ignore-scripts", &package]).current_dir(scratch).stdout(Stdio::null());
        succeed(&mut npm)?;
        let tarball = format!("{}.tgz", self.folder_name());
        self.check(&scratch.join(&tarball))?;
        succeed(Command::new("tar").args(["-xzf", &tarball]).current_dir(scratch))?;
        Ok(scratch.join("package"))
    }

    fn wheel(&self, scratch: &Path) -> Result<PathBuf> {
        let environment = crate::python::environment()?;
        let package = format!("{}=={}", self.name, self.version);
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]);
        pip.args(["--implementation", "cp", "--python-version", "311", "--platform", "manylinux2014_x86_64", &package]);
        succeed(pip.current_dir(scratch))?;
        let mut entries = fs::read_dir(scratch)?;
        let wheel = entries.next().context("pip download left nothing")??.path();
        self.check(&wheel)?;
        let unpacked = scratch.join("package");
        succeed(Command::new(environment.join("bin/python")).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
        keep_protos(&unpacked)?;
        Ok(unpacked)
    }

    fn check(&self, file: &Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("{} was not downloaded", file.display()))?;
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        ensure!(digest == self.sha256, "{} has SHA-256 {digest}, pinned is {}", file.display(), self.sha256);
        Ok(())
    }
}

/// Removes all files but .proto files.
fn keep_protos(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            keep_protos(&path)?;
        } else if path.extension().is_none_or(|extension| extension != "proto") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}
