//! PAX records, `LENGTH KEY=VALUE\n` each: what they say of the next entry. Only what changes how an archive is read
//! matters here; times, owners and attributes do not.

use super::header::Malformed;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
}

impl Records {
    /// Refuses whatever two readers could understand differently: a record twice, one without value, holes in a file.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut records = Self::default();
        while !bytes.is_empty() {
            let (key, value) = take_record(&mut bytes)?;
            if key.starts_with(b"GNU.sparse.") {
                return Err(Malformed);
            }
            match key {
                b"path" => set(&mut records.path, name(value)?)?,
                b"linkpath" => set(&mut records.link, name(value)?)?,
                b"size" => set(&mut records.size, decimal(value)?)?,
                _ => {}
            }
        }
        Ok(records)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The key and the value of the first record, which is taken off.
fn take_record<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let space = bytes.iter().position(|&byte| byte == b' ').ok_or(Malformed)?;
    let length = usize::try_from(decimal(&bytes[..space])?).map_err(|_| Malformed)?;
    let (record, rest) = bytes.split_at_checked(length).ok_or(Malformed)?;
    let body = record.get(space + 1..).and_then(|body| body.strip_suffix(b"\n")).ok_or(Malformed)?;
    let equals = body.iter().position(|&byte| byte == b'=').ok_or(Malformed)?;
    *bytes = rest;
    Ok((&body[..equals], &body[equals + 1..]))
}

fn name(value: &[u8]) -> Result<Vec<u8>, Malformed> {
    if value.is_empty() || value.contains(&0) { Err(Malformed) } else { Ok(value.to_vec()) }
}

fn decimal(text: &[u8]) -> Result<u64, Malformed> {
    if !(1..=19).contains(&text.len()) {
        return Err(Malformed);
    }
    text.iter().try_fold(0, |value: u64, byte| match byte {
        b'0'..=b'9' => {
            value.checked_mul(10).and_then(|value| value.checked_add(u64::from(byte - b'0'))).ok_or(Malformed)
        }
        _ => Err(Malformed),
    })
}

fn set<T>(place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    if place.replace(value).is_some() { Err(Malformed) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_a_link_and_a_size_are_read_and_the_rest_is_passed_over() {
        let text = b"30 mtime=1350244992.023960108\n12 path=a\xff\n\n14 linkpath=b\n11 size=12\n";
        let records = Records::parse(text).unwrap();
        assert_eq!(records, Records { path: Some(b"a\xff\n".to_vec()), link: Some(b"b".to_vec()), size: Some(12) });
        assert_eq!(Records::parse(b""), Ok(Records::default()));
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        for text in [
            b"9 path=a\n9 path=b\n".as_slice(),
            b"8 path=\n",
            b"10 path=a\0\n",
            b"9 size=-1\n",
            b"99 path=a\n",
            b"3 path=a\n",
            b"9 path=ab",
            b"path=a\n",
            b"22 GNU.sparse.major=1\n",
            b" 9 path=a\n",
        ] {
            assert_eq!(Records::parse(text), Err(Malformed), "{:?}", String::from_utf8_lossy(text));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(0..128u8, 0..60)) {
            let _ = Records::parse(&bytes);
        }
    }
}
