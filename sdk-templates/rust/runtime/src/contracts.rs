//! The contracts that a program was compiled against, compared with those of the broker before it starts its work.
//!
//! `qwerq::contracts!()` makes the list. A difference is told with both versions; what happens then the program says, and whoever runs it
//! may say otherwise. What one contract is, is in `contract`.

use std::env;
use std::fmt;
use std::str::FromStr;

use qwerq_proto::wire::SchemaVersion;

use crate::client::Client;
use crate::contract::ContractInfo;
use crate::error::Error;

/// The environment variable that has the last word on what a difference means.
const SETTING: &str = "QWERQ_CONTRACTS";

/// Contracts to check, as [`contracts!`](crate::contracts!) lists them.
#[derive(Debug, Clone, Copy)]
pub struct Contracts {
    list: &'static [ContractInfo],
    policy: ContractPolicy,
}

/// What a difference between program and broker means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContractPolicy {
    /// [`Contracts::check`] is an error.
    #[default]
    Refuse,
    /// It is logged as a warning, and the program goes on.
    Warn,
    /// Nothing is asked of the broker.
    Ignore,
}

impl ContractPolicy {
    /// What the setting says, if it says something.
    fn unless(self, setting: Option<&str>) -> Result<ContractPolicy, ContractsError> {
        setting.filter(|text| !text.is_empty()).map_or(Ok(self), str::parse)
    }
}

impl FromStr for ContractPolicy {
    type Err = ContractsError;

    fn from_str(text: &str) -> Result<ContractPolicy, ContractsError> {
        match text {
            "refuse" => Ok(ContractPolicy::Refuse),
            "warn" => Ok(ContractPolicy::Warn),
            "ignore" => Ok(ContractPolicy::Ignore),
            other => Err(ContractsError::Policy(other.to_owned())),
        }
    }
}

/// A contract that the broker does not hold as the program was compiled against it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContractDifference {
    /// The program's contract.
    pub contract: ContractInfo,
    /// The broker's side.
    pub broker: BrokerContract,
}

/// What the broker has instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerContract {
    /// No contract on this queue, or no such queue.
    Missing,
    /// Versions of which none is the program's.
    Other {
        /// The active one.
        active: u32,
    },
    /// The program's version, which was retired: its publishes are refused.
    Retired {
        /// Its number at the broker.
        version: u32,
        /// The active one.
        active: u32,
    },
}

impl fmt::Display for ContractDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ContractInfo { queue, message_type, version, fingerprint } = &self.contract;
        write!(f, "{queue}: compiled against {message_type}")?;
        if *version != 0 {
            write!(f, " version {version}")?;
        }
        write!(f, " (fingerprint {}); ", fingerprint.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>())?;
        match self.broker {
            BrokerContract::Missing => {
                write!(f, "the broker has no contract for this queue: register it (`qwer-q gen push`), or connect to the right broker")
            }
            BrokerContract::Other { active } => {
                write!(
                    f,
                    "the broker's active version is {active} and none of its versions is this one: run `qwer-q gen` and compile again"
                )
            }
            BrokerContract::Retired { version, active } => {
                write!(f, "the broker retired it (its version {version}), active is {active}: run `qwer-q gen` and compile again")
            }
        }
    }
}

/// Why a check of contracts failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ContractsError {
    /// Program and broker differ, and the policy is to refuse.
    #[error("{}", told(.0))]
    Different(Vec<ContractDifference>),
    /// The broker could not be asked.
    #[error("the broker's contracts could not be read: {0}")]
    Client(#[from] Error),
    /// The setting is none.
    #[error("{SETTING} is {0:?}; say refuse, warn or ignore")]
    Policy(String),
}

fn told(differences: &[ContractDifference]) -> String {
    let lines: String = differences.iter().map(|difference| format!("\n  {difference}")).collect();
    format!("the broker's contracts are not those that this program was compiled against ({SETTING}=warn starts it all the same):{lines}")
}

impl Contracts {
    /// A list of contracts; differences are refused.
    #[must_use]
    pub const fn new(list: &'static [ContractInfo]) -> Contracts {
        Contracts { list, policy: ContractPolicy::Refuse }
    }

    /// The contracts.
    #[must_use]
    pub const fn list(&self) -> &'static [ContractInfo] {
        self.list
    }

    /// What a difference means, unless the environment variable `QWERQ_CONTRACTS` (`refuse`, `warn` or `ignore`) says otherwise.
    #[must_use]
    pub const fn policy(self, policy: ContractPolicy) -> Contracts {
        Contracts { policy, ..self }
    }

    /// Compares the contracts with the broker's. Gives the differences that were warned of; none means that all is well.
    ///
    /// A version that the broker knows is no difference, even if another is active by now: publishes are judged by the version that they
    /// name, and the queue's rule has decided what its successor may change.
    ///
    /// # Errors
    /// There are differences and the policy is to refuse; or the broker cannot be asked.
    pub async fn check(&self, client: &Client) -> Result<Vec<ContractDifference>, ContractsError> {
        let policy = self.policy.unless(env::var(SETTING).ok().as_deref())?;
        if policy == ContractPolicy::Ignore || self.list.is_empty() {
            return Ok(Vec::new());
        }
        let differences = self.differences(client).await?;
        if policy == ContractPolicy::Refuse && !differences.is_empty() {
            return Err(ContractsError::Different(differences));
        }
        for difference in &differences {
            tracing::warn!("{difference}");
        }
        Ok(differences)
    }

    async fn differences(&self, client: &Client) -> Result<Vec<ContractDifference>, Error> {
        let active = client.list_schemas().await?;
        let mut differences = Vec::new();
        for contract in self.list {
            let is_it = |version: &&SchemaVersion| *version.fingerprint == contract.fingerprint;
            let broker = match active.iter().find(|version| version.queue == contract.queue) {
                None => BrokerContract::Missing,
                Some(active) if is_it(&active) => continue,
                Some(active) => {
                    let versions = client.schema_versions(contract.queue).await?;
                    match versions.iter().find(is_it) {
                        Some(known) if known.retired => BrokerContract::Retired { version: known.version, active: active.version },
                        Some(_) => continue,
                        None => BrokerContract::Other { active: active.version },
                    }
                }
            };
            differences.push(ContractDifference { contract: *contract, broker });
        }
        Ok(differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_has_the_last_word() {
        for (setting, expected) in [
            (None, ContractPolicy::Warn),
            (Some(""), ContractPolicy::Warn),
            (Some("refuse"), ContractPolicy::Refuse),
            (Some("ignore"), ContractPolicy::Ignore),
        ] {
            assert_eq!(ContractPolicy::Warn.unless(setting).unwrap(), expected, "{setting:?}");
        }
        let error = ContractPolicy::Warn.unless(Some("maybe")).unwrap_err().to_string();
        assert_eq!(error, "QWERQ_CONTRACTS is \"maybe\"; say refuse, warn or ignore");
    }
}
