//! Signed notes and checkpoints in the formats signed-note and tlog-checkpoint of C2SP, with Ed25519 (RFC
//! 8032).
//!
//! A note is a text followed by signatures, each with the name of a key; other parties may add signatures. A
//! checkpoint is a note about a log: its name, its size, and the root of the Merkle tree over the log. A note
//! is accepted only if a known key has signed it and no signature by a known key is wrong.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use secrecy::ExposeSecret as _;

use crate::config::ExportKeys;
use crate::hash::sha256;

/// Beginning of a signature line: an em dash and a space.
const SIGNATURE_PREFIX: &str = "\u{2014} ";
/// The type byte of an Ed25519 key.
///
/// It is part of the hash from which the key's id is made, and precedes the key's bytes in its text form.
const ED25519_TYPE: u8 = 1;
const KEY_ID_BYTES: usize = 4;
/// Maximum number of signatures of a note. A note with more signatures is malformed.
const SIGNATURES_MAX: usize = 64;

/// An Ed25519 public key.
pub type PublicKey = [u8; 32];

/// A key that signs notes.
#[derive(Clone)]
pub struct NoteSigner(SigningKey);

impl fmt::Debug for NoteSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoteSigner({})", hex::encode(self.public()))
    }
}

impl NoteSigner {
    /// Creates a signer from a seed.
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Creates a signer with the configured key, or returns `None` if no signing key is configured.
    pub fn configured(keys: &ExportKeys) -> Option<Self> {
        keys.signing.as_ref().map(|seed| Self::new(seed.expose_secret()))
    }

    /// Returns the public key that verifies this signer's signatures.
    pub fn public(&self) -> PublicKey {
        self.0.verifying_key().to_bytes()
    }

    /// Signs a text, which must end with a line feed, under the name `name`, and returns the note.
    pub fn sign(&self, name: &str, text: &str) -> String {
        let signature = self.0.sign(text.as_bytes());
        let signed = [&key_id(name, &self.public())[..], &signature.to_bytes()].concat();
        format!("{text}\n{SIGNATURE_PREFIX}{name} {}\n", STANDARD.encode(signed))
    }
}

/// Returns the configured keys whose signatures are trusted: the service's own key and further ones.
pub fn known_keys(keys: &ExportKeys) -> Vec<PublicKey> {
    let own = NoteSigner::configured(keys).map(|signer| signer.public());
    own.into_iter().chain(keys.verify.iter().copied()).collect()
}

/// Formats a public key as text: the name, the id and the bytes of the key.
pub fn verifier_key(name: &str, key: &PublicKey) -> String {
    let bytes = [&[ED25519_TYPE][..], key].concat();
    format!("{name}+{}+{}", hex::encode(key_id(name, key)), STANDARD.encode(bytes))
}

fn key_id(name: &str, key: &PublicKey) -> [u8; KEY_ID_BYTES] {
    let hash = sha256(&[name.as_bytes(), b"\n", &[ED25519_TYPE], key].concat());
    let mut id = [0; KEY_ID_BYTES];
    id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    id
}

/// The reason why a note is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteDefect {
    /// The text is not a note, or not a note of the expected kind.
    Malformed,
    /// No known key has signed the note.
    UnknownKey,
    /// The signature of a known key does not match the text.
    BadSignature,
}

impl NoteDefect {
    /// Returns a sentence that describes why the note is rejected.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "it is not a signed note of the expected kind",
            Self::UnknownKey => "no known key has signed it",
            Self::BadSignature => "its signature does not match its text",
        }
    }
}

/// Returns the text of a note if one of these keys has signed the note under the name `name`.
pub fn open<'a>(note: &'a str, name: &str, keys: &[PublicKey]) -> Result<&'a str, NoteDefect> {
    let (text, signatures) = split_note(note).ok_or(NoteDefect::Malformed)?;
    let mut is_signed = false;
    for line in signatures.lines() {
        let (by, signed) = parse_signature_line(line).ok_or(NoteDefect::Malformed)?;
        let Some((id, bytes)) = signed.split_first_chunk::<KEY_ID_BYTES>() else {
            return Err(NoteDefect::Malformed);
        };
        for key in keys.iter().filter(|key| by == name && key_id(name, key) == *id) {
            verify_signature(key, text, bytes)?;
            is_signed = true;
        }
    }
    if is_signed { Ok(text) } else { Err(NoteDefect::UnknownKey) }
}

/// Splits a note into its text and its signature lines.
fn split_note(note: &str) -> Option<(&str, &str)> {
    let end = note.rfind("\n\n")?;
    let text = note.get(..=end)?;
    let signatures = note.get(end.checked_add(2)?..)?;
    let is_plain = note.chars().all(|c| c == '\n' || !c.is_control());
    let count = signatures.lines().count();
    let fits = is_plain && signatures.ends_with('\n') && (1..=SIGNATURES_MAX).contains(&count);
    fits.then_some((text, signatures))
}

/// Returns the name and the decoded bytes of a signature line.
fn parse_signature_line(line: &str) -> Option<(&str, Vec<u8>)> {
    let (name, signed) = line.strip_prefix(SIGNATURE_PREFIX)?.split_once(' ')?;
    let is_name = !name.is_empty() && !name.contains('+');
    STANDARD.decode(signed).ok().filter(|_| is_name).map(|bytes| (name, bytes))
}

fn verify_signature(key: &PublicKey, text: &str, signature: &[u8]) -> Result<(), NoteDefect> {
    let key = VerifyingKey::from_bytes(key).map_err(|_| NoteDefect::BadSignature)?;
    let signature = Signature::from_slice(signature).map_err(|_| NoteDefect::BadSignature)?;
    key.verify_strict(text.as_bytes(), &signature).map_err(|_| NoteDefect::BadSignature)
}

/// The size of a log, and the root of the Merkle tree over the events of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the log, which is also the name of the key.
    pub origin: String,
    /// The position of the last event in the log.
    pub size: u64,
    /// The root of the tree over the content hashes of all events up to position `size`.
    pub root: [u8; 32],
}

impl Checkpoint {
    /// Returns the checkpoint as a signed note.
    pub fn sign(&self, signer: &NoteSigner) -> String {
        let Self { origin, size, root } = self;
        signer.sign(origin, &format!("{origin}\n{size}\n{}\n", STANDARD.encode(root)))
    }

    /// Parses a checkpoint from a note that one of these keys has signed.
    pub fn open(note: &str, keys: &[PublicKey]) -> Result<Self, NoteDefect> {
        let origin = note.lines().next().unwrap_or_default();
        let text = open(note, origin, keys)?;
        Self::parse(text).ok_or(NoteDefect::Malformed)
    }

    fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.strip_suffix('\n')?.split('\n').collect();
        let [origin, number, root] = lines.as_slice() else { return None };
        let size: u64 = number.parse().ok()?;
        // A number has only one spelling: no sign, no leading zeros.
        let root: [u8; 32] = STANDARD.decode(root).ok()?.try_into().ok()?;
        (size.to_string() == *number && !origin.is_empty()).then(|| Self {
            origin: (*origin).to_owned(),
            size,
            root,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "svc/01990000-0000-7000-8000-000000000001";

    fn signer(seed: u8) -> NoteSigner {
        NoteSigner::new(&[seed; 32])
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint { origin: NAME.to_owned(), size: 42, root: [7; 32] }
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_signed() {
        let note = checkpoint().sign(&signer(1));
        let lines: Vec<&str> = note.lines().collect();
        assert_eq!(lines[..4], [NAME, "42", &STANDARD.encode([7; 32]), ""]);
        assert!(lines[4].starts_with(&format!("\u{2014} {NAME} ")) && lines.len() == 5);
        assert_eq!(Checkpoint::open(&note, &[signer(2).public(), signer(1).public()]), Ok(checkpoint()));
        assert_eq!(Checkpoint::open(&note, &[signer(2).public()]), Err(NoteDefect::UnknownKey));
        assert_eq!(Checkpoint::open(&note, &[]), Err(NoteDefect::UnknownKey));
    }

    #[test]
    fn a_note_with_a_changed_byte_is_not_believed() {
        let note = checkpoint().sign(&signer(1));
        let keys = [signer(1).public()];
        for place in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[place] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert!(Checkpoint::open(&changed, &keys).is_err(), "byte {place}: {changed}");
        }
        for end in 0..note.len() {
            let Some(cut) = note.get(..end) else { continue };
            assert!(Checkpoint::open(cut, &keys).is_err(), "cut at {end}");
        }
        let resigned = note.replace("42", "43");
        assert_eq!(Checkpoint::open(&resigned, &keys), Err(NoteDefect::BadSignature));
    }

    #[test]
    fn others_may_sign_too_and_only_three_lines_are_a_checkpoint() {
        let one = signer(1);
        let two = signer(2);
        let note = checkpoint().sign(&one);
        let witnessed = format!("{note}\u{2014} witness.example {}\n", STANDARD.encode([9; 76]));
        assert_eq!(Checkpoint::open(&witnessed, &[one.public()]), Ok(checkpoint()));
        let wrong = format!("{note}{}", note.lines().last().unwrap().replace(NAME, "w"));
        assert_eq!(Checkpoint::open(&wrong, &[one.public()]), Err(NoteDefect::Malformed), "no line feed");
        for text in [
            format!("{NAME}\n42\n"),
            format!("{NAME}\n042\n{}\n", STANDARD.encode([7; 32])),
            format!("{NAME}\n+42\n{}\n", STANDARD.encode([7; 32])),
            format!("{NAME}\n42\n{}\n", STANDARD.encode([7; 31])),
            format!("{NAME}\n42\n{}\nmore\n", STANDARD.encode([7; 32])),
        ] {
            let note = two.sign(NAME, &text);
            assert_eq!(Checkpoint::open(&note, &[two.public()]), Err(NoteDefect::Malformed), "{text}");
        }
    }

    #[test]
    fn a_key_as_text_has_its_name_id_and_bytes() {
        // RFC 8032, section 7.1, test 1.
        let seed = hex::decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let signer = NoteSigner::new(&seed.try_into().unwrap());
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(hex::encode(signer.public()), public);
        let text = verifier_key("a.example", &signer.public());
        let parts: Vec<&str> = text.splitn(3, '+').collect();
        assert_eq!((parts[0], parts[1].len(), parts.len()), ("a.example", 8, 3), "{text}");
        assert_eq!(STANDARD.decode(parts[2]).unwrap()[1..], signer.public());
    }
}
