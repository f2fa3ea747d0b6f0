//! Where the values of `serve`'s settings come from: flags win over `QWERQ_*` variables, variables over the file of `--config`.
//!
//! Every value is text here; `settings.rs` gives it a meaning. Nothing here reads the process's environment: it is an argument.

use std::collections::BTreeMap;
use std::path::Path;

use super::settings::{self, BROKER_SETTINGS, Settings, queue_default_settings};
use crate::failure::Failure;
use crate::setting::Setting;

/// Text values by flag, by variable and by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// What the command line says, by flag without dashes.
    flags: BTreeMap<String, String>,
    /// The environment variables that start with `QWERQ_`.
    environment: BTreeMap<String, String>,
    /// What the settings file says, by key.
    file: BTreeMap<String, String>,
    /// The settings file, as messages name it.
    file_name: String,
    /// What the user should know before the broker starts.
    pub(crate) warnings: Vec<String>,
}

/// The strength of a source; a stronger one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    File,
    Environment,
    Flag,
}

impl Sources {
    /// Nothing from a file yet.
    pub(crate) fn new(flags: BTreeMap<String, String>, environment: BTreeMap<String, String>) -> Sources {
        Sources { flags, environment, ..Sources::default() }
    }

    /// Reads the settings file that `--config` or `QWERQ_CONFIG` names, if one does.
    pub(crate) fn read_file(&mut self) -> Result<(), Failure> {
        let named = self.flags.get("config").or_else(|| self.environment.get("QWERQ_CONFIG").filter(|name| !name.is_empty()));
        let Some(name) = named.cloned() else {
            return Ok(());
        };
        let text =
            std::fs::read_to_string(&name).map_err(|error| Failure::usage(format!("cannot read the settings file {name}: {error}")))?;
        self.add_file(&name, &text)
    }

    fn add_file(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| Failure::usage(format!("the settings file {name} is no TOML")).context(error.to_string()))?;
        let known = known_keys();
        for (key, value) in table {
            if !known.contains(&key) {
                return Err(
                    Failure::usage(format!("{name}: no setting is named `{key}`")).next_step(format!("the keys are {}", known.join(", ")))
                );
            }
            let text = plain(&value).ok_or_else(|| Failure::usage(format!("{name}: `{key}` is a table, not a value")))?;
            self.file.insert(key, text);
        }
        self.file_name = name.to_owned();
        Ok(())
    }

    /// The settings that follow from all sources.
    pub(crate) fn settings(&mut self) -> Result<Settings, Failure> {
        self.drop_injected_ports();
        let mut settings = Settings::default();
        for setting in BROKER_SETTINGS {
            self.apply(setting, &mut settings)?;
        }
        for option in queue_default_settings() {
            self.apply(option, &mut settings.queue_defaults)?;
        }
        self.choose_token(&mut settings)?;
        Ok(settings)
    }

    fn apply<T: Default>(&self, setting: &Setting<T>, target: &mut T) -> Result<(), Failure> {
        let Some((source, text)) = self.find(setting) else {
            return Ok(());
        };
        (setting.set)(target, text).map_err(|why| {
            let name = match source {
                Source::Flag => format!("--{}", setting.flag),
                Source::Environment => setting.variable(),
                Source::File => format!("{}: `{}`", self.file_name, setting.key()),
            };
            Failure::usage(format!("{name}: {why}")).next_step("see `qwer-q serve --help`")
        })
    }

    /// The strongest source's value. An empty variable counts as not set, as compose files leave them.
    fn find<T: Default>(&self, setting: &Setting<T>) -> Option<(Source, &str)> {
        let flag = self.flags.get(setting.flag).map(|text| (Source::Flag, text));
        let variable = self.environment.get(&setting.variable()).filter(|text| !text.is_empty());
        let key = self.file.get(&setting.key()).map(|text| (Source::File, text));
        let (source, text) = flag.or(variable.map(|text| (Source::Environment, text))).or(key)?;
        Some((source, text))
    }

    /// Kubernetes sets QWERQ_PORT=tcp://... in every pod beside a service named `qwerq`.
    fn drop_injected_ports(&mut self) {
        for variable in ["QWERQ_PORT", "QWERQ_METRICS_PORT"] {
            if self.environment.get(variable).is_some_and(|value| value.starts_with("tcp://")) {
                self.environment.remove(variable);
                self.warnings.push(format!("{variable} starts with tcp://, as Kubernetes injects it for a service; ignored"));
            }
        }
    }

    /// A token and a token file from the same source contradict each other; otherwise the stronger source decides.
    fn choose_token(&self, settings: &mut Settings) -> Result<(), Failure> {
        let strength = |flag| {
            let setting = BROKER_SETTINGS.iter().find(|setting| setting.flag == flag);
            setting.and_then(|setting| self.find(setting)).map(|(source, _)| source)
        };
        let (token, file) = (strength("auth-token"), strength("auth-token-file"));
        if token.is_some() && token == file {
            return Err(Failure::usage("both auth-token and auth-token-file are set").next_step("keep one of them"));
        }
        if let Some(path) = settings.auth_token_file.as_deref().filter(|_| file > token) {
            settings.auth_token = Some(read_token(path)?);
        }
        Ok(())
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read the token file {shown}: {error}")))?;
    settings::token(text.trim_matches(['\r', '\n'])).map_err(|why| Failure::usage(format!("token file {shown}: {why}")))
}

fn known_keys() -> Vec<String> {
    let broker = BROKER_SETTINGS.iter().map(Setting::key);
    broker.chain(queue_default_settings().map(Setting::key)).collect()
}

/// A TOML value as the flag would carry it; lists are joined by commas.
fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Datetime(time) => Some(time.to_string()),
        toml::Value::Array(items) => {
            let parts: Option<Vec<String>> = items.iter().map(plain).collect();
            parts.map(|parts| parts.join(","))
        }
        toml::Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::settings::{DurabilityMode, SchemaMode};
    use std::time::Duration;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn sources(flags: &[(&str, &str)], environment: &[(&str, &str)], file: &str) -> Sources {
        let mut sources = Sources::new(pairs(flags), pairs(environment));
        sources.add_file("qwerq.toml", file).expect("a good file");
        sources
    }

    #[test]
    fn flags_win_over_variables_and_variables_over_the_file() {
        let file = "port = 1\nmetrics_port = 1\ndurability = 'none'\nmax_messages = 1";
        let environment = [("QWERQ_PORT", "2"), ("QWERQ_METRICS_PORT", "2"), ("QWERQ_MAX_MESSAGES", "2"), ("QWERQ_SCHEMA_MODE", "")];
        let settings = sources(&[("port", "3"), ("max-messages", "3")], &environment, file).settings().expect("good values");
        assert_eq!((settings.port, settings.metrics_port), (3, 2));
        assert_eq!(settings.durability, DurabilityMode::None);
        assert_eq!(settings.schema_mode, SchemaMode::Permissive);
        assert_eq!(settings.queue_defaults.max_messages, Some(3));
    }

    #[test]
    fn a_file_holds_every_kind_of_value() {
        let file = "auto_create = false\nallowed_hosts = ['a.example', 'b.example']\n\
                    fsync_interval = '250ms'\nretry_backoff = '2s..5m'\nbind = '0.0.0.0'";
        let settings = sources(&[], &[], file).settings().expect("good values");
        assert!(!settings.auto_create);
        assert_eq!(settings.allowed_hosts, ["a.example", "b.example"]);
        assert_eq!(settings.fsync_interval, Duration::from_millis(250));
        assert_eq!(settings.queue_defaults.retry_backoff_max_ms, Some(300_000));
    }

    #[test]
    fn a_port_that_kubernetes_injects_is_ignored_with_a_warning() {
        let mut injected = sources(&[], &[("QWERQ_PORT", "tcp://10.0.0.1:9876")], "");
        assert_eq!(injected.settings().expect("ignored").port, 9876);
        assert_eq!(injected.warnings.len(), 1);
    }

    #[test]
    fn a_wrong_value_names_where_it_came_from() {
        for (mut wrong, name) in [
            (sources(&[("port", "x")], &[], ""), "--port"),
            (sources(&[], &[("QWERQ_BIND", "x")], ""), "QWERQ_BIND"),
            (sources(&[], &[], "on_full = 'x'"), "qwerq.toml: `on_full`"),
        ] {
            let report = wrong.settings().expect_err("a wrong value").report();
            assert!(report.contains(name), "{report}");
        }
        let unknown = Sources::default().add_file("f", "prot = 1").expect_err("no such key");
        assert!(unknown.report().contains("`prot`"), "{}", unknown.report());
    }

    #[test]
    fn the_stronger_source_decides_about_the_token() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("token");
        std::fs::write(&path, "from-file\n").expect("a written file");
        let path = path.to_str().expect("an ASCII path");
        let both = sources(&[("auth-token-file", path)], &[("QWERQ_AUTH_TOKEN", "variable")], "").settings().expect("the flag wins");
        assert_eq!(both.auth_token.as_deref(), Some("from-file"));
        let token = sources(&[("auth-token", "flag")], &[("QWERQ_AUTH_TOKEN_FILE", path)], "").settings().expect("the flag wins");
        assert_eq!(token.auth_token.as_deref(), Some("flag"));
        let flags = [("auth-token", "a"), ("auth-token-file", path)];
        assert!(sources(&flags, &[], "").settings().is_err());
    }
}
