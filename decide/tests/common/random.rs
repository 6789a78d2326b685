//! Randomness that can be had again: the seed is printed, and `QUARTIER_SEED` sets it.

/// xorshift64*, good enough for arrivals and noise.
pub struct Random(u64);

impl Random {
    pub fn seeded() -> Self {
        let seed = std::env::var("QUARTIER_SEED").ok().and_then(|seed| seed.parse().ok());
        let address = std::ptr::from_ref(&seed) as u64;
        let seed = seed.unwrap_or(address ^ u64::from(std::process::id()) << 32);
        println!("QUARTIER_SEED={seed}");
        Self::of(seed)
    }

    /// The same each time.
    pub fn of(seed: u64) -> Self {
        let mut random = Self(seed | 1);
        // Seeds that differ in a bit or two begin alike.
        for _ in 0..20 {
            random.unit();
        }
        random
    }

    /// From 0 to less than 1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}
