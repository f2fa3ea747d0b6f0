//! How a version of a contract is shown.

use qwerq::SchemaVersion;
use serde_json::{Value, json};

use crate::table::{Table, Way};
use crate::timestamp;

pub(super) fn version_table(versions: &[SchemaVersion]) -> Table {
    let columns = ["QUEUE", ">VERSION", "MESSAGE", "REPLY", "STATE", "REGISTERED", "BY", "FINGERPRINT"];
    let ways = [
        ("FINGERPRINT", Way::Out),
        ("BY", Way::Out),
        ("REPLY", Way::KeepEnd(12)),
        ("MESSAGE", Way::KeepEnd(16)),
        ("QUEUE", Way::KeepStart(16)),
        ("REGISTERED", Way::Out),
        ("REPLY", Way::Out),
    ];
    let mut table = Table::new(&columns).giving_way(&ways);
    for version in versions {
        let reply = if version.reply_type.is_empty() { "-" } else { &version.reply_type };
        table.row(vec![
            version.queue.clone(),
            version.version.to_string(),
            version.message_type.clone(),
            reply.to_owned(),
            state(version).to_owned(),
            timestamp::format_ms(version.registered_at_ms),
            version.registered_by.clone(),
            hex(&version.fingerprint)[..12.min(2 * version.fingerprint.len())].to_owned(),
        ]);
    }
    table
}

fn state(version: &SchemaVersion) -> &'static str {
    match (version.active, version.retired) {
        (true, _) => "active",
        (false, true) => "retired",
        (false, false) => "",
    }
}

/// A version for programs.
pub(crate) fn version_json(version: &SchemaVersion) -> Value {
    json!({
        "queue": version.queue,
        "version": version.version,
        "message_type": version.message_type,
        "reply_type": (!version.reply_type.is_empty()).then_some(&version.reply_type),
        "fingerprint": hex(&version.fingerprint),
        "registered_at": timestamp::format_ms(version.registered_at_ms),
        "registered_by": version.registered_by,
        "active": version.active,
        "retired": version.retired,
    })
}

/// Bytes in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> SchemaVersion {
        SchemaVersion {
            queue: "orders".into(),
            version: 2,
            message_type: "shop.v1.Order".into(),
            fingerprint: vec![0xab; 32].into(),
            active: true,
            ..SchemaVersion::default()
        }
    }

    #[test]
    fn a_version_has_the_same_keys_with_and_without_a_reply() {
        let object = version_json(&version());
        assert_eq!(object["reply_type"], Value::Null);
        assert_eq!(object["fingerprint"], "ab".repeat(32));
        let reply = SchemaVersion { reply_type: "shop.v1.Receipt".into(), ..version() };
        assert_eq!(version_json(&reply)["reply_type"], "shop.v1.Receipt");
    }

    #[test]
    fn a_version_without_a_fingerprint_can_be_listed() {
        version_table(&[version(), SchemaVersion::default()]);
    }
}
