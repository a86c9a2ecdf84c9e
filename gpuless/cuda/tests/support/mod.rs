//! Libraries that tests make by hand.
#![allow(dead_code, reason = "every test file uses a part")]

/// A 64-bit ELF file with these sections and nothing else.
pub fn elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut file = vec![0; 64];
    let mut headers = vec![0; 64];
    let mut add = |file: &mut Vec<u8>, name: &str, kind: u32, bytes: Option<&[u8]>, headers: &mut Vec<u8>| {
        let name_at = names.len() as u32;
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        let bytes = bytes.map_or_else(|| names.clone(), <[u8]>::to_vec);
        file.resize(file.len().next_multiple_of(8), 0);
        headers.extend([name_at, kind].map(u32::to_le_bytes).concat());
        headers.extend([0, 0, file.len() as u64, bytes.len() as u64, 0, 8, 0].map(u64::to_le_bytes).concat());
        file.extend(bytes);
    };
    for (name, bytes) in sections {
        add(&mut file, name, 1, Some(bytes), &mut headers);
    }
    add(&mut file, ".shstrtab", 3, None, &mut headers);
    file.resize(file.len().next_multiple_of(8), 0);
    let headers_at = file.len() as u64;
    let count = (headers.len() / 64) as u16;
    file.extend(headers);
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file[16..24].copy_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    file[40..48].copy_from_slice(&headers_at.to_le_bytes());
    file[52..64].copy_from_slice(&[64, 0, 56, 0, 0, 0, 64, 0, count as u8, (count >> 8) as u8, (count - 1) as u8, 0]);
    file
}

/// The parts of an entry that a test sets; the rest is derived.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub kind: u16,
    pub architecture: u32,
    pub flags: u64,
    /// The size of the header without text: 64, or 72 as CUDA 12.4 has it.
    pub header: usize,
    pub options: &'a str,
    pub stored: &'a [u8],
    pub text_size: u64,
}

impl Default for Entry<'_> {
    fn default() -> Self {
        Self { kind: 1, architecture: 90, flags: 0x11, header: 64, options: "", stored: b"", text_size: 0 }
    }
}

/// A fat binary of these entries.
pub fn fat_binary(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        let mut header = vec![0; entry.header];
        let payload = entry.stored.len().next_multiple_of(8);
        let compressed = entry.flags & 0xa000 != 0;
        if !entry.options.is_empty() {
            header[20..24].copy_from_slice(&(entry.header as u32).to_le_bytes());
            header.extend([entry.header as u32 + 8, entry.options.len() as u32].map(u32::to_le_bytes).concat());
            header.extend(entry.options.as_bytes());
            header.resize(header.len().next_multiple_of(8), 0);
        }
        header[..2].copy_from_slice(&entry.kind.to_le_bytes());
        let size = header.len() as u32;
        header[4..8].copy_from_slice(&size.to_le_bytes());
        header[8..16].copy_from_slice(&(payload as u64).to_le_bytes());
        header[16..20].copy_from_slice(&(if compressed { entry.stored.len() as u32 } else { 0 }).to_le_bytes());
        header[24..28].copy_from_slice(&[8, 0, 7, 0]);
        header[28..32].copy_from_slice(&entry.architecture.to_le_bytes());
        header[40..48].copy_from_slice(&entry.flags.to_le_bytes());
        header[56..64].copy_from_slice(&entry.text_size.to_le_bytes());
        body.extend(header);
        body.extend(entry.stored);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let mut bytes = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0].to_vec();
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Numbers that look random, the same in every run.
pub struct Numbers(u64);

impl Numbers {
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A number of a kind that breaks readers.
    pub fn value(&mut self) -> u64 {
        match self.below(4) {
            0 => u64::MAX,
            1 => 0,
            2 => 1 << self.below(64),
            _ => self.next(),
        }
    }
}
