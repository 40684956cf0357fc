//! Long strings that JavaScript takes over as they are, instead of copying them to memory of its own: a result of several
//! MiB would keep its thread for milliseconds. Node.js offers that since Node-API 10; where it does not, nothing is taken.

use std::{ffi::c_void, sync::LazyLock};

use napi::sys;

use crate::stream::text::JsText;

/// What is shorter is copied in less time than another allocation takes to be tracked.
const LONG: usize = 65_536;

const NODE_API: u32 = 10;

/// `node_api_create_external_string_latin1` and `_utf16`, which differ in what a unit is.
type Create<Unit> = unsafe extern "C" fn(
    env: sys::napi_env,
    text: *const Unit,
    length: isize,
    free: sys::napi_finalize,
    hint: *mut c_void,
    string: *mut sys::napi_value,
    copied: *mut bool,
) -> sys::napi_status;

#[derive(Clone, Copy)]
#[cfg_attr(not(unix), allow(dead_code, reason = "never looked for there"))]
struct Offered {
    latin1: Create<u8>,
    utf16: Create<u16>,
}

/// The addon asks for no more than Node-API 8, so that these are looked up by name.
#[cfg(unix)]
static OFFERED: LazyLock<Option<Offered>> = LazyLock::new(|| {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: the name ends with a NUL, and the handle is the one of everything that is loaded.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let latin1 = find(c"node_api_create_external_string_latin1")?;
    let utf16 = find(c"node_api_create_external_string_utf16")?;
    // SAFETY: Node-API fixes the signatures of what bears these names. Node.js is never unloaded.
    unsafe {
        Some(Offered {
            latin1: std::mem::transmute::<*mut c_void, Create<u8>>(latin1),
            utf16: std::mem::transmute::<*mut c_void, Create<u16>>(utf16),
        })
    }
});
#[cfg(not(unix))]
static OFFERED: LazyLock<Option<Offered>> = LazyLock::new(|| None);

fn offered(env: sys::napi_env) -> Option<Offered> {
    let mut version = 0;
    // SAFETY: the environment lives, and its thread is this one.
    let status = unsafe { sys::napi_get_version(env, &mut version) };
    (status == sys::Status::napi_ok && version >= NODE_API).then_some(*OFFERED)?
}

/// A string of this text, which is given back if JavaScript does not take it.
pub fn string(env: sys::napi_env, text: JsText) -> Result<sys::napi_value, JsText> {
    if text.len() < LONG {
        return Err(text);
    }
    let Some(Offered { latin1, utf16 }) = offered(env) else { return Err(text) };
    match text {
        JsText::Latin1(text) => give(env, text, latin1).map_err(JsText::Latin1),
        JsText::Utf16(text) => give(env, text, utf16).map_err(JsText::Utf16),
    }
}

fn give<Unit>(env: sys::napi_env, text: Vec<Unit>, create: Create<Unit>) -> Result<sys::napi_value, Vec<Unit>> {
    // What was kept in reserve goes back to the system.
    let text = Box::leak(text.into_boxed_slice());
    let (mut string, mut copied) = (std::ptr::null_mut(), false);
    // No slice is longer than `isize::MAX`.
    let (length, hint) = (text.len() as isize, text.len() as *mut c_void);
    // SAFETY: the environment lives, and its thread is this one. The text lives, unchanged and of this length, until `free` is
    // called with it and the hint.
    let status = unsafe { create(env, text.as_ptr(), length, Some(free::<Unit>), hint, &mut string, &mut copied) };
    if status == sys::Status::napi_ok {
        // V8 collects for the sake of memory that it was told of, and of this it knows nothing.
        if !copied {
            adjust(env, size_of_val(text), 1);
        }
        return Ok(string);
    }
    // SAFETY: it was leaked above, and Node-API frees nothing when it fails.
    Err(unsafe { Box::from_raw(text) }.into_vec())
}

/// Called by Node.js when the string is collected, also when its environment has ended, then without one: the addon is never
/// unloaded, since each promise pins it.
unsafe extern "C" fn free<Unit>(env: sys::napi_env, text: *mut c_void, hint: *mut c_void) {
    let text = std::ptr::slice_from_raw_parts_mut(text.cast::<Unit>(), hint as usize);
    // SAFETY: `give` leaked a slice of this length, and Node.js calls this once.
    let text = unsafe { Box::from_raw(text) };
    if !env.is_null() {
        adjust(env, size_of_val(&*text), -1);
    }
}

/// Tells V8 of memory that a string of its holds, or holds no more.
fn adjust(env: sys::napi_env, bytes: usize, sign: i64) {
    let mut total = 0;
    // SAFETY: the environment lives, and its thread is this one. A failure changes nothing but when V8 collects.
    unsafe { sys::napi_adjust_external_memory(env, bytes as i64 * sign, &mut total) };
}
