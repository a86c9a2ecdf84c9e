//! The lines of a recording that has data.
use super::call::{Call, MAX_COUNT, MAX_RANKS, Op, Side};
use collspec_core::num::DType;

/// What stands before a message of NCCL's log.
const MARK: &str = " NCCL INFO ";
/// The word of lines that only this command reads.
const OWN: &str = "collspec-judge ";

/// Elements of a block, in the order of the bytes of their line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub block: u64,
    pub start: u64,
    pub len: u64,
}

/// What a line says.
#[derive(Debug)]
pub enum Said<'a> {
    /// A call of NCCL's, looked at or not.
    Seen,
    /// A call that is looked at, and its number in the process.
    Call(u64, Call),
    Data(Data<'a>),
    /// Nothing more will come of a call, for this reason.
    Gone(u64, &'a str),
    /// A call that cannot be looked at, for this reason.
    Left(&'a str),
    /// The file has reached its limit.
    Full,
    /// A second NCCL is in the process, which is not followed.
    SecondLibrary,
    /// The file of the NCCL that is followed.
    Library(&'a str),
    /// Something else.
    Nothing,
}

/// Elements that were copied.
#[derive(Debug)]
pub struct Data<'a> {
    pub id: u64,
    pub side: Side,
    pub replay: u64,
    pub runs: Vec<Run>,
    pub hex: &'a str,
}

/// The process that wrote a line (`HOST:PID`), and what the line says.
///
/// # Errors
///
/// What is wrong with a line that only the recorder writes.
pub fn said(line: &str) -> Result<(&str, Said<'_>), String> {
    let Some((place, message)) = line.split_once(MARK) else { return Ok(("", Said::Nothing)) };
    let (thread, device) = place.split_once(' ').unwrap_or((place, ""));
    let process = thread.rsplit_once(':').map_or("", |(process, _)| process);
    let Some(own) = message.strip_prefix(OWN) else {
        let is_call = message.split(' ').nth(1) == Some("opCount");
        return Ok((process, if is_call { Said::Seen } else { Said::Nothing }));
    };
    let (kind, rest) = own.split_once(' ').unwrap_or((own, ""));
    let said = match kind {
        "call" => {
            let (fields, place) = rest.split_once(" at=").ok_or("the place of the call is missing")?;
            let fields = Fields(fields);
            let device = device.trim_matches(['[', ']']).parse().unwrap_or(0);
            Said::Call(fields.number("id")?, Call { device, ..call(&fields, place)? })
        }
        "data" => Said::Data(data(&Fields(rest))?),
        "gone" => Said::Gone(Fields(rest).number("id")?, Fields(rest).word("why")?),
        "left" => Said::Left(Fields(rest).word("why")?),
        "full" => Said::Full,
        "second-nccl" => Said::SecondLibrary,
        "library" => Said::Library(rest.strip_prefix("file=").ok_or("file is missing")?),
        _ => return Err("a line of the judge's of a kind that this version does not know".to_owned()),
    };
    Ok((process, said))
}

/// `name=value`, separated by spaces.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn find(&self, name: &str) -> Option<&'a str> {
        self.0.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn word(&self, name: &str) -> Result<&'a str, String> {
        self.find(name).ok_or_else(|| format!("{name} is missing"))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        self.word(name)?.parse().map_err(|_| format!("{name} is not a number"))
    }

    /// A number below a limit.
    fn index(&self, name: &str, limit: usize) -> Result<usize, String> {
        let number = self.number(name)?;
        let index = usize::try_from(number).ok().filter(|index| *index < limit);
        index.ok_or_else(|| format!("{name} is {number}, and must be less than {limit}"))
    }

    fn hexadecimal(&self, name: &str) -> Result<u64, String> {
        let digits = self.word(name)?.strip_prefix("0x").unwrap_or_default();
        u64::from_str_radix(digits, 16).map_err(|_| format!("{name} is not a number in hexadecimal"))
    }
}

fn call(fields: &Fields<'_>, place: &str) -> Result<Call, String> {
    let name = fields.word("op")?;
    let op = Op::named(name).ok_or("an operation that this version does not know")?;
    let ranks = fields.index("ranks", MAX_RANKS + 1)?;
    let number = fields.number("type")?;
    let dtype = DType::all().into_iter().find(|dtype| u64::try_from(dtype.nccl().0) == Ok(number));
    let on_device = fields.find("factor") == Some("device");
    let count = fields.number("count")?;
    if count > MAX_COUNT {
        return Err(format!("count is {count}, more than a buffer can have"));
    }
    Ok(Call {
        op,
        comm: fields.hexadecimal("comm")?,
        sequence: fields.number("seq")?,
        rank: fields.index("rank", ranks)?,
        ranks,
        // A wrong one is NCCL's to refuse.
        root: usize::try_from(fields.word("root")?.parse::<i64>().map_err(|_| "root is not a number")?)
            .unwrap_or(usize::MAX),
        count,
        dtype: dtype.ok_or("a type that this version does not know")?,
        reduce: fields.word("reduce")?.parse().map_err(|_| "reduce is not a number")?,
        factor: fields.find("factor").filter(|_| !on_device).map(|_| fields.hexadecimal("factor")).transpose()?,
        number: fields.number("number")?,
        lines: [fields.number("in")?, fields.number("out")?, u64::from(on_device)],
        in_graph: fields.number("graph")? == 1,
        device: 0,
        place: place.to_owned(),
    })
}

fn data<'a>(fields: &Fields<'a>) -> Result<Data<'a>, String> {
    let run = |text: &str| {
        let (block, rest) = text.split_once(':')?;
        let (start, len) = rest.split_once('+')?;
        Some(Run { block: block.parse().ok()?, start: start.parse().ok()?, len: len.parse().ok()? })
    };
    let runs = fields.word("runs")?.split(',').map(run).collect::<Option<_>>();
    Ok(Data {
        id: fields.number("id")?,
        side: match fields.word("side")? {
            "in" => Side::In,
            "out" => Side::Out,
            "factor" => Side::Factor,
            _ => return Err("side is none of in, out and factor".to_owned()),
        },
        replay: fields.number("replay")?,
        runs: runs.ok_or("runs are not BLOCK:START+LENGTH")?,
        hex: fields.word("hex")?,
    })
}

impl Data<'_> {
    /// The elements: their block, place and bits.
    ///
    /// # Errors
    ///
    /// They are not in the call's buffer, or there are more or fewer bytes.
    pub fn elements(&self, call: &Call) -> Result<Vec<(u64, u64, u64)>, String> {
        let digits = 2 * call.dtype.size();
        let mut all = 0u64;
        for Run { block, start, len } in &self.runs {
            let count = if self.side == Side::Factor { 1 } else { call.count };
            let end = start.checked_add(*len).filter(|end| *end <= count);
            if end.is_none() || *block >= call.blocks(self.side) {
                return Err(format!("elements {start} to {start}+{len} of block {block} are not in the call's buffer"));
            }
            all = all.saturating_add(*len);
        }
        if all.checked_mul(digits as u64) != Some(self.hex.len() as u64) {
            return Err(format!("{} digits for {all} elements of {}", self.hex.len(), call.dtype.name()));
        }
        let mut bits = self.hex.as_bytes().chunks_exact(digits).map(bits_of);
        let mut elements = Vec::with_capacity(self.hex.len() / digits);
        for Run { block, start, len } in &self.runs {
            for at in *start..start + len {
                let bits = bits.next().flatten().ok_or("a byte is not two hexadecimal digits")?;
                elements.push((*block, at, bits));
            }
        }
        Ok(elements)
    }
}

/// Bytes in hexadecimal, the least significant one first.
fn bits_of(digits: &[u8]) -> Option<u64> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(u64::from);
    let mut bits = 0;
    for pair in digits.chunks_exact(2).rev() {
        bits = bits << 8 | digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bits)
}
