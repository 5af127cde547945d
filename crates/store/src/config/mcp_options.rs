//! The settings of one server in `mcp.json` beyond how it is reached: their keys, and the other words for them that
//! people bring along. Reads and compares; the text is changed by the edit.

use evi_domain::{ConfigProblem, EraChoice, UpstreamOptions};
use jsonc_parser::{ast::Value, common::Ranged as _};
use serde_json::Value as Json;

use super::mcp_read::Fields;

/// The keys as they are written.
pub(crate) const ERA: &str = "era";
pub(crate) const START: &str = "startup_timeout_sec";
pub(crate) const CALL: &str = "tool_timeout_sec";
pub(crate) const TOTAL: &str = "tool_total_timeout_sec";
pub(crate) const CA: &str = "ca";
/// What other applications write for [`CALL`], some in seconds and some in milliseconds.
pub(crate) const TIMEOUT: &str = "timeout";

/// The longest limit, in seconds.
const LONGEST: f64 = 86_400.0;
/// From here on a `timeout` can only be meant in milliseconds.
const MILLIS_FROM: f64 = 3_600.0;

type Read<T> = Result<T, ConfigProblem>;

/// Reads them all.
pub(crate) fn read(fields: &Fields<'_, '_>) -> Read<UpstreamOptions> {
    let call = match seconds(fields, CALL)? {
        Some(call) => Some(call),
        None => timeout(fields)?,
    };
    Ok(UpstreamOptions {
        era: era(fields)?,
        start_secs: seconds(fields, START)?,
        call_secs: call,
        total_secs: seconds(fields, TOTAL)?,
        ca: fields.filled(CA)?,
    })
}

fn era(fields: &Fields<'_, '_>) -> Read<EraChoice> {
    let Some(word) = fields.filled(ERA)? else { return Ok(EraChoice::Auto) };
    EraChoice::parse(&word).ok_or_else(|| {
        let message = format!("unknown {ERA} {word:?}: expected auto, legacy or modern");
        fields.source.problem(fields.start(ERA), message)
    })
}

fn number(fields: &Fields<'_, '_>, key: &str) -> Read<Option<f64>> {
    let Some(property) = fields.get(key) else { return Ok(None) };
    let text = match &property.value {
        Value::NumberLit(number) => number.value,
        Value::StringLit(text) => text.value.trim(),
        _ => "",
    };
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(Some(number)),
        _ => {
            let message = format!("{key:?} must be a number of seconds above 0");
            Err(fields.source.problem(property.value.start(), message))
        }
    }
}

fn seconds(fields: &Fields<'_, '_>, key: &str) -> Read<Option<u32>> {
    let Some(number) = number(fields, key)? else { return Ok(None) };
    if number > LONGEST {
        let message = format!("{key:?} is in seconds, and at most {LONGEST} (a day)");
        return Err(fields.source.problem(fields.start(key), message));
    }
    Ok(Some(whole(number)))
}

fn timeout(fields: &Fields<'_, '_>) -> Read<Option<u32>> {
    let number = number(fields, TIMEOUT)?;
    Ok(number.map(|n| whole(if n > MILLIS_FROM { (n / 1000.0).min(LONGEST) } else { n })))
}

fn whole(seconds: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a day")]
    let whole = seconds.ceil() as u32;
    whole.max(1)
}

/// Every key with its value; `None` where it is not to be there.
pub(crate) fn keys(options: &UpstreamOptions) -> [(&'static str, Option<Json>); 5] {
    [
        (ERA, Some(options.era).filter(|era| *era != EraChoice::Auto).map(|era| era.as_str().into())),
        (START, options.start_secs.map(Json::from)),
        (CALL, options.call_secs.map(Json::from)),
        (TOTAL, options.total_secs.map(Json::from)),
        (CA, options.ca.as_deref().map(Json::from)),
    ]
}
