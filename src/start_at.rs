//! Where a consumer group or a reader begins, as `--from` takes it.

use qwerq::StartAt;

use crate::moment;

/// What `--from` takes, for the help.
pub(crate) const FORMS: &str = "beginning|end|offset=N|time=T";

/// Reads `beginning`, `end`, `offset=N` or `time=2026-12-01T11:48:03Z`; the error is a sentence for the user.
pub(crate) fn parse(text: &str) -> Result<StartAt, String> {
    match text.split_once('=') {
        None if text == "beginning" => Ok(StartAt::Beginning),
        None if text == "end" => Ok(StartAt::End),
        Some(("offset", number)) => {
            number.parse().map(StartAt::Offset).map_err(|_| format!("'{number}' is no offset; offsets are whole numbers from 0"))
        }
        Some(("time", time)) => moment::parse(time).map(StartAt::Time),
        _ => Err(format!("'{text}' is none of beginning, end, offset=N and time=2026-12-01T11:48:03Z")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn every_form_is_read_and_others_are_refused() {
        let time = StartAt::Time(UNIX_EPOCH + Duration::from_secs(1));
        for (text, start) in [
            ("beginning", StartAt::Beginning),
            ("end", StartAt::End),
            ("offset=0", StartAt::Offset(0)),
            ("time=1970-01-01T00:00:01Z", time),
        ] {
            assert_eq!(parse(text), Ok(start));
        }
        for text in ["", "start", "offset", "offset=", "offset=-1", "time=now", "7", "beginning=1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
