//! What came of a call, as plain data for `index.js`: a result, or all that an error object is made of.

use std::sync::Arc;

use napi::{
    Env, JsValue, Result,
    bindgen_prelude::{ToNapiValue, TypeName, ValueType},
    sys,
};
use napi_derive::napi;

use super::external;
use crate::{
    config::Config,
    error::{Attempt, Error, Fault},
    process::{
        execute::{Ended, Outcome},
        output::Captured,
    },
    stream::text::JsText,
};

/// Text that is already in one of the two forms in which JavaScript keeps it, so that handing it over is a copy; not even that
/// if nobody else holds it and it is long.
#[derive(Debug)]
pub struct NativeText(pub Arc<JsText>);

impl From<JsText> for NativeText {
    fn from(text: JsText) -> Self {
        Self(Arc::new(text))
    }
}

impl TypeName for NativeText {
    fn type_name() -> &'static str {
        "string"
    }

    fn value_type() -> ValueType {
        ValueType::String
    }
}

impl ToNapiValue for NativeText {
    unsafe fn to_napi_value(env: sys::napi_env, text: Self) -> Result<sys::napi_value> {
        match Arc::try_unwrap(text.0) {
            Ok(text) => external::string(env, text).or_else(|text| copied(env, &text)),
            Err(shared) => copied(env, &shared),
        }
    }
}

fn copied(env: sys::napi_env, text: &JsText) -> Result<sys::napi_value> {
    let env = Env::from_raw(env);
    let string = match text {
        JsText::Latin1(bytes) => env.create_string_latin1(bytes)?,
        JsText::Utf16(units) => env.create_string_utf16(units)?,
    };
    Ok(string.raw())
}

#[napi(object, object_from_js = false)]
pub struct NativeConfig {
    pub api_url: String,
    pub api_key: Option<String>,
    pub shape: String,
    pub rootfs: Option<String>,
    pub region: Option<String>,
    pub timeout_ms: u32,
    pub reuse_lease: bool,
}

impl From<&Config> for NativeConfig {
    fn from(config: &Config) -> Self {
        let Config { api_url, api_key, shape, rootfs, region, timeout_ms, reuse_lease } = config.clone();
        Self { api_url, api_key, shape, rootfs, region, timeout_ms, reuse_lease }
    }
}

#[napi(object, object_from_js = false)]
pub struct NativeOutput {
    #[napi(ts_type = "string")]
    pub stdout: NativeText,
    #[napi(ts_type = "string")]
    pub stderr: NativeText,
    pub truncated: bool,
}

impl From<Captured> for NativeOutput {
    fn from(Captured { stdout, stderr, truncated }: Captured) -> Self {
        Self { stdout: stdout.into(), stderr: stderr.into(), truncated }
    }
}

#[napi(object, object_from_js = false)]
pub struct NativeAttempt {
    pub status: Option<u32>,
    pub failure: Option<String>,
}

/// What an error object is made of.
#[napi(object, object_from_js = false)]
pub struct NativeRejection {
    /// The error's class: `error`, `api`, `cleanup` or `range`.
    pub kind: String,
    pub message: String,
    pub status: Option<u32>,
    pub operation: Option<String>,
    pub tries: u32,
    pub attempts: Vec<NativeAttempt>,
    pub entry: Option<String>,
}

impl From<Error> for NativeRejection {
    fn from(error: Error) -> Self {
        let kind = match error.fault {
            Fault::PacingFixed { .. } => "range",
            Fault::Api { .. } => "api",
            ref fault if fault.is_unconfirmed() => "cleanup",
            _ => "error",
        };
        Self {
            kind: kind.to_owned(),
            message: error.to_string(),
            status: error.status().map(u32::from),
            operation: error.details.operation.map(|operation| operation.to_string()),
            tries: error.details.tries,
            attempts: error.details.attempts.into_iter().map(NativeAttempt::from).collect(),
            entry: error.details.entry,
        }
    }
}

impl From<Attempt> for NativeAttempt {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Status(status) => Self { status: Some(status.into()), failure: None },
            Attempt::Failure(failure) => Self { status: None, failure: Some(failure.as_str().to_owned()) },
        }
    }
}

/// The end of a command or a release. Without a rejection it went well.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeOutcome {
    pub rejection: Option<NativeRejection>,
    pub exit_code: Option<f64>,
    #[napi(ts_type = "string")]
    pub signal: Option<NativeText>,
    pub timed_out: bool,
    /// What was captured; of a command that was not started only its result has any.
    pub output: Option<NativeOutput>,
    pub process_id: Option<String>,
}

impl NativeOutcome {
    pub fn rejected(error: impl Into<Error>) -> Self {
        Self { rejection: Some(NativeRejection::from(error.into())), ..Self::default() }
    }

    pub fn of_command(ended: Ended, captured: Captured) -> Self {
        let output = NativeOutput::from(captured);
        let mut outcome = match ended.outcome {
            Ok(Outcome::Exited(exit)) => Self {
                exit_code: exit.code,
                signal: exit.signal.map(|units| JsText::Utf16(units).into()),
                ..Self::default()
            },
            Ok(Outcome::TimedOut) => Self { timed_out: true, ..Self::default() },
            Err(error) => Self::rejected(error),
        };
        if outcome.rejection.is_none() || ended.process.is_some() {
            outcome.output = Some(output);
        }
        outcome.process_id = ended.process.map(|process| process.to_string());
        outcome
    }
}

/// A fault of a call that throws at once; `index.js` turns it into the error of that name.
pub fn thrown(fault: Fault) -> napi::Error<String> {
    let class = match fault {
        Fault::PacingFixed { .. } => "RangeError",
        _ => "CreateosError",
    };
    napi::Error::new(class.to_owned(), fault.to_string())
}
