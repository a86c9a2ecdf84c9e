//! Proofs that two processes belong to the same job, without sending the secret. Whoever hears a proof, or gets one by pretending to be
//! the other side, can test guesses on it: the secret must not be guessable ([`crate::launch`] refuses others).
use sha2::{Digest, Sha256};
use std::io;

/// Bytes that are used once.
pub type Nonce = [u8; 16];
/// The proof that a process belongs to a job.
pub type Proof = [u8; 32];

/// The side that proves something: a proof of one side is not valid for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The process that listens.
    Leader,
    /// A process that connects.
    Member,
}

/// The secret shared by the processes of a job.
#[derive(Clone, Debug)]
pub struct Secret {
    job: String,
    secret: String,
}

impl Secret {
    pub fn of(job: &str, secret: &str) -> Self {
        Self { job: job.to_owned(), secret: secret.to_owned() }
    }

    /// The proof of one side to the other, for the nonces of both. A plain hash suffices where an HMAC is usually needed: the texts are
    /// preceded by their lengths and the rest has a fixed length, so that a proof cannot be extended to another.
    pub fn proof(&self, side: Side, member: &Nonce, leader: &Nonce) -> Proof {
        let mut hash = Sha256::new();
        for text in [self.job.as_bytes(), self.secret.as_bytes()] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update([match side {
            Side::Leader => 1,
            Side::Member => 2,
        }]);
        hash.update(member);
        hash.update(leader);
        hash.finalize().into()
    }
}

/// A new nonce.
///
/// # Errors
///
/// The system has no random bytes.
pub fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 16];
    let mut have = 0;
    while have < bytes.len() {
        let rest = bytes.get_mut(have..).unwrap_or_default();
        have += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_job_one_side_and_one_pair_of_nonces() {
        let own = Secret::of("job", "secret");
        let (a, b) = ([1; 16], [2; 16]);
        let proof = own.proof(Side::Member, &a, &b);
        assert_eq!(proof, Secret::of("job", "secret").proof(Side::Member, &a, &b));
        let others = [
            own.proof(Side::Leader, &a, &b),
            own.proof(Side::Member, &b, &a),
            Secret::of("jobs", "ecret").proof(Side::Member, &a, &b),
            Secret::of("job", "").proof(Side::Member, &a, &b),
        ];
        assert!(others.iter().all(|other| *other != proof));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
