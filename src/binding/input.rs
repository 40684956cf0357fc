//! What `index.js` passes, by name, and what the core makes of it. `index.js` has checked types; everything that has a
//! message of its own is judged by the core.

use std::{path::PathBuf, time::Duration};

use napi::bindgen_prelude::Either3;
use napi_derive::napi;

use crate::{
    api::{
        client::{Options, Pace},
        pacer::Pacing,
        transport::Network,
    },
    config::{RawConfig, Setting, Staging, timeout_ms},
    error::Fault,
    lease::{
        provider::{Metadata, Scope, Surroundings},
        resume::Claims,
    },
    process::script::Command,
};

/// A setting of any type that matters; `index.js` passes NaN for all others.
#[napi]
pub type RawSetting = Either3<String, f64, bool>;

fn setting(raw: Option<RawSetting>) -> Setting {
    match raw {
        None => Setting::Absent,
        Some(Either3::A(text)) => Setting::Text(text),
        Some(Either3::B(number)) => Setting::Number(number),
        Some(Either3::C(bool)) => Setting::Bool(bool),
    }
}

#[napi(object, object_to_js = false)]
pub struct NativeRawConfig {
    pub api_url: Option<RawSetting>,
    pub api_key: Option<RawSetting>,
    pub shape: Option<RawSetting>,
    pub rootfs: Option<RawSetting>,
    pub region: Option<RawSetting>,
    pub timeout_ms: Option<RawSetting>,
    pub reuse_lease: Option<RawSetting>,
}

impl From<NativeRawConfig> for RawConfig {
    fn from(raw: NativeRawConfig) -> Self {
        Self {
            api_url: setting(raw.api_url),
            api_key: setting(raw.api_key),
            shape: setting(raw.shape),
            rootfs: setting(raw.rootfs),
            region: setting(raw.region),
            timeout_ms: setting(raw.timeout_ms),
            reuse_lease: setting(raw.reuse_lease),
        }
    }
}

/// Every number is a checked integer.
#[napi(object, object_to_js = false)]
pub struct NativeOptions {
    /// Absent: no pacing.
    pub requests_per_minute: Option<u32>,
    pub burst: Option<u32>,
    pub reconnect_attempts: u32,
    pub reconnect_delay_ms: u32,
    /// 0: no idle timeout.
    pub idle_timeout_ms: u32,
    pub cleanup_timeout_ms: u32,
    pub always_stage_script: bool,
}

impl From<NativeOptions> for Options {
    fn from(options: NativeOptions) -> Self {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        Self {
            pace: match options.requests_per_minute.zip(options.burst) {
                Some((requests_per_minute, burst)) => Pace::By(Pacing { requests_per_minute, burst }),
                None => Pace::Unpaced,
            },
            reconnect_attempts: options.reconnect_attempts,
            reconnect_delay: ms(options.reconnect_delay_ms),
            idle_timeout: (options.idle_timeout_ms > 0).then(|| ms(options.idle_timeout_ms)),
            cleanup_timeout: ms(options.cleanup_timeout_ms),
            staging: if options.always_stage_script { Staging::Always } else { Staging::Large },
        }
    }
}

/// The process's environment, as far as Node.js itself would heed it.
#[napi(object, object_to_js = false)]
pub struct NativeSurroundings {
    pub api_key: Option<String>,
    pub extra_ca_certs: Option<String>,
    pub ssl_cert_file: Option<String>,
    pub system_ca: bool,
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
}

impl From<NativeSurroundings> for Surroundings {
    fn from(surroundings: NativeSurroundings) -> Self {
        Self {
            network: Network {
                extra_ca_certs: surroundings.extra_ca_certs.map(PathBuf::from),
                ssl_cert_file: surroundings.ssl_cert_file.map(PathBuf::from),
                system_ca: surroundings.system_ca,
                https_proxy: surroundings.https_proxy,
                no_proxy: surroundings.no_proxy,
            },
            api_key: surroundings.api_key,
        }
    }
}

#[napi(object, object_to_js = false)]
pub struct NativeMetadata {
    pub provider: Option<String>,
    pub company_id: Option<String>,
    pub environment_id: Option<String>,
    pub api_url: Option<String>,
}

#[napi(object, object_to_js = false)]
pub struct NativeScope {
    pub company_id: String,
    pub environment_id: String,
    pub config: NativeRawConfig,
    pub lease_id: Option<String>,
    pub metadata: NativeMetadata,
}

impl From<NativeScope> for Scope {
    fn from(scope: NativeScope) -> Self {
        let NativeMetadata { provider, company_id, environment_id, api_url } = scope.metadata;
        Self {
            company_id: scope.company_id,
            environment_id: scope.environment_id,
            config: scope.config.into(),
            lease_id: scope.lease_id,
            metadata: Metadata { provider, company_id, environment_id, api_url },
        }
    }
}

/// What a lease's metadata says of its sandbox: text, or absent for null; `index.js` passes NaN for anything else.
#[napi(object, object_to_js = false)]
pub struct NativeClaims {
    pub marker: Option<String>,
    pub shape: Option<RawSetting>,
    pub rootfs: Option<RawSetting>,
    pub region: Option<RawSetting>,
}

impl From<NativeClaims> for Claims {
    fn from(claims: NativeClaims) -> Self {
        Self {
            marker: claims.marker,
            shape: setting(claims.shape),
            rootfs: setting(claims.rootfs),
            region: setting(claims.region),
        }
    }
}

#[napi(object, object_to_js = false)]
pub struct NativeCommand {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub env_names: Vec<String>,
    /// One for each name; absent where the value is no text.
    pub env_values: Vec<Option<String>>,
    pub stdin: Option<String>,
    /// NaN where it is no number.
    pub timeout_ms: Option<f64>,
}

impl NativeCommand {
    /// The command's own deadline, if it names one.
    pub fn timeout(&self) -> Result<Option<Duration>, Fault> {
        let Some(ms) = self.timeout_ms else { return Ok(None) };
        let ms = timeout_ms(ms).ok_or(Fault::TimeoutInvalid)?;
        Ok(Some(Duration::from_millis(ms.into())))
    }
}

impl From<NativeCommand> for Command {
    fn from(command: NativeCommand) -> Self {
        Self {
            command: command.command,
            args: command.args,
            cwd: command.cwd,
            env: command.env_names.into_iter().zip(command.env_values).collect(),
            stdin: command.stdin,
        }
    }
}
