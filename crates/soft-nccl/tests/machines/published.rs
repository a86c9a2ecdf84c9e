//! Results of NCCL 2.27.3 on four GPUs (RTX 3090, no NVLink): SHA-256 of all_reduce's 262,144 results in f32, by ring and by tree, as
//! published in Tencent/hpn, src/code/issue4/bitwise_diagnostics/results/autodl-4x3090.json (2026-07-23).
//!
//! The inputs were those of `torch.randn` on a processor with AVX2, seeded with 2026 plus the rank; they are reproduced here bit by bit.

// Coefficients are Cephes', as they are written there.
#![allow(clippy::excessive_precision, clippy::unreadable_literal)]

/// Digests of the results by ring and by tree.
pub const RING: &str = "c5797c4ea5b9d3a387fab7d4e3a6405fa60f3397d19a050070e896433b99d513";
pub const TREE: &str = "3f3470571b53caf023710336ca21a493c7a27e27e40871280a5c85a44d44a991";

/// The Mersenne twister of 32 bits.
struct Twister {
    state: [u32; 624],
    at: usize,
}

impl Twister {
    fn new(seed: u32) -> Self {
        let mut state = [seed; 624];
        for i in 1..624 {
            let last = state[i - 1];
            state[i] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, at: 624 }
    }

    fn number(&mut self) -> u32 {
        if self.at == 624 {
            for i in 0..624 {
                let word = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7fff_ffff);
                let twist = if word % 2 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % 624] ^ (word >> 1) ^ twist;
            }
            self.at = 0;
        }
        let mut word = self.state[self.at];
        self.at += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number of [0, 1) with 24 bits.
    fn uniform(&mut self) -> f32 {
        (self.number() % (1 << 24)) as f32 / (1 << 24) as f32
    }
}

/// A polynomial, highest power first, each step rounded once.
fn polynomial(coefficients: &[f32], x: f32) -> f32 {
    coefficients.iter().skip(1).fold(coefficients[0], |sum, next| sum.mul_add(x, *next))
}

/// The logarithm of a positive number by Cephes' polynomial, rounded where AVX2 code with fused multiply-add rounds.
fn log(number: f32) -> f32 {
    const TERMS: [f32; 9] = [
        7.0376836292E-2,
        -1.1514610310E-1,
        1.1676998740E-1,
        -1.2420140846E-1,
        1.4249322787E-1,
        -1.6668057665E-1,
        2.0000714765E-1,
        -2.4999993993E-1,
        3.3333331174E-1,
    ];
    let mut exponent = (number.to_bits() >> 23) as f32 - 126.0;
    let fraction = f32::from_bits((number.to_bits() & 0x007f_ffff) | 0x3f00_0000);
    let mut x = fraction - 1.0;
    if fraction < std::f32::consts::FRAC_1_SQRT_2 {
        exponent -= 1.0;
        x += fraction;
    }
    let square = x * x;
    let tail = (polynomial(&TERMS, x) * x).mul_add(square, exponent * -2.12194440e-4) - square * 0.5;
    exponent.mul_add(0.693359375, x + tail)
}

/// Sine and cosine of a positive angle, likewise.
fn sine_and_cosine(angle: f32) -> (f32, f32) {
    let octant = ((angle * std::f32::consts::FRAC_2_PI * 2.0) as u32 + 1) & !1;
    let steps = octant as f32;
    let reduced = [-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8_f32];
    let x = reduced.into_iter().fold(angle, |x, part| steps.mul_add(part, x));
    let z = x * x;
    let even = (polynomial(&[2.443315711809948E-5, -1.388731625493765E-3, 4.166664568298827E-2], z) * z)
        .mul_add(z, -(z * 0.5))
        + 1.0;
    let odd = (polynomial(&[-1.9515295891E-4, 8.3321608736E-3, -1.6666654611E-1], z) * z).mul_add(x, x);
    let sign = |negative: bool, value: f32| if negative { -value } else { value };
    let (sine, cosine) = if octant & 2 == 0 { (odd, even) } else { (even, odd) };
    (sign(octant & 4 != 0, sine), sign((octant.wrapping_sub(2)) & 4 == 0, cosine))
}

/// The contributions of a rank.
pub fn inputs(rank: u32, count: usize) -> Vec<f32> {
    let mut twister = Twister::new(2026 + rank);
    let mut values: Vec<f32> = (0..count).map(|_| twister.uniform()).collect();
    for block in values.as_chunks_mut::<16>().0 {
        let (first, second) = block.split_at_mut(8);
        for (a, b) in first.iter_mut().zip(second) {
            let radius = (-2.0 * log(1.0 - *a)).sqrt();
            let (sine, cosine) = sine_and_cosine(std::f32::consts::TAU * *b);
            // A number was added that is 0 in the first call: it leaves no negative zero.
            (*a, *b) = (radius * cosine + 0.0, radius * sine + 0.0);
        }
    }
    values
}
