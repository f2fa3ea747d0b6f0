//! Generated TypeScript as a project has it: a folder in which tsc compiles it, and Node.
//!
//! tsc and Node's types are those that sdk-templates/typescript/runtime pins. Without them tests are skipped by name; in CI they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::corpus::say;

/// What npm has installed; `None`, and said so, where it has not.
///
/// # Panics
/// In CI, where it has not.
pub(crate) fn node_modules() -> Option<PathBuf> {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-templates/typescript/runtime");
    let modules = runtime.join("node_modules");
    if modules.join("typescript").is_dir() {
        return Some(modules);
    }
    let missing = format!("tsc is not installed: run `npm ci` in {}", runtime.display());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    say(&format!("Skipped: {missing}"));
    None
}

/// A folder in which TypeScript compiles and finds its packages.
pub(crate) fn project(modules: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).expect("a link");
    fs::write(folder.path().join("package.json"), r#"{ "type": "module" }"#).expect("writable");
    folder
}

/// Compiles `src` to `build`, with the strictest settings.
pub(crate) fn compile(modules: &Path, folder: &Path) {
    let config = r#"{ "compilerOptions": { "target": "es2022", "module": "nodenext", "lib": ["es2022", "esnext.disposable"], "types": ["node"],
        "rootDir": "src", "outDir": "build", "strict": true, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true,
        "noPropertyAccessFromIndexSignature": true, "verbatimModuleSyntax": true }, "include": ["src"] }"#;
    fs::write(folder.join("tsconfig.json"), config).expect("writable");
    let tsc = Command::new("node").arg(modules.join("typescript/bin/tsc")).arg("--project").arg(folder).output().expect("node runs");
    assert!(tsc.status.success(), "{}", String::from_utf8_lossy(&tsc.stdout));
}
