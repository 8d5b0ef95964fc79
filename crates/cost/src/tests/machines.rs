//! Machines for simulations. Their times follow other laws than the model's.

use crate::{Choice, Processors, Work};

/// A generator of random numbers (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn log_uniform(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.unit())
    }

    /// A factor whose logarithm is normally distributed.
    pub(super) fn factor(&mut self, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        ((sum - 6.0) * deviation).exp()
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

pub(super) struct Operation {
    pub(super) inputs: f64,
    pub(super) output: f64,
    pub(super) element_ns: f64,
}

const fn operation(_name: &str, inputs: f64, output: f64, element_ns: f64) -> Operation {
    Operation { inputs, output, element_ns }
}

/// Operations, with bytes and a core's time for an element.
pub(super) const OPERATIONS: [Operation; 12] = [
    operation("add f32", 8.0, 4.0, 0.07),
    operation("add f64", 16.0, 8.0, 0.14),
    operation("dot f32", 8.0, 0.0, 0.13),
    operation("dot f64", 16.0, 0.0, 0.27),
    operation("a*b + a - 2 f32", 8.0, 4.0, 0.25),
    operation("a*b + a - 2 f64", 16.0, 8.0, 0.50),
    operation("exp f32", 4.0, 4.0, 0.80),
    operation("exp f64", 8.0, 8.0, 1.30),
    operation("Black-Scholes f32", 12.0, 4.0, 5.0),
    operation("Black-Scholes f64", 24.0, 8.0, 10.0),
    operation("sum(sqrt(a*a + b*b)) f32", 8.0, 0.0, 0.40),
    operation("sum(sqrt(a*a + b*b)) f64", 16.0, 0.0, 1.10),
];

/// A machine with times of its own.
pub(super) struct Simulated {
    pub(super) processors: Processors,
    /// The time of a core relative to the prior's.
    core: f64,
    /// Bytes in a nanosecond.
    core_bandwidth: f64,
    bandwidth: f64,
    cache: f64,
    wake: f64,
    wake_each: f64,
    latency: [f64; 2],
    bus: f64,
    is_duplex: bool,
    staging: f64,
    gpu_share: f64,
    sharing: f64,
    efficiency: f64,
    operations: [[f64; 2]; OPERATIONS.len()],
    ripple: [f64; 4],
    noise: f64,
    outliers: f64,
    /// The share of the cores that other processes leave.
    pub(super) free: f64,
    bus_left: f64,
}

impl Simulated {
    pub(super) fn random(random: &mut Random) -> Self {
        let cores = random.log_uniform(1.0, 256.99) as usize;
        let gpus = [0, 1, 1, 1, 1, 1, 2, 4, 8][random.below(9)];
        let core = 1.0 / random.log_uniform(0.2, 3.0);
        let bandwidth = random.log_uniform(10.0, 1000.0);
        let core_bandwidth = random.log_uniform(4.0, 40.0).min(bandwidth);
        let latency = random.log_uniform(3_000.0, 200_000.0);
        let bus = random.log_uniform(2.0, 900.0);
        Simulated {
            processors: Processors { cores, gpus },
            core,
            core_bandwidth,
            bandwidth,
            cache: random.log_uniform(0.5e6, 4e6),
            wake: random.log_uniform(1_000.0, 15_000.0),
            wake_each: random.log_uniform(20.0, 400.0),
            latency: [latency, latency * random.log_uniform(1.0, 1.6)],
            bus,
            is_duplex: random.unit() < 0.7,
            staging: random.log_uniform(0.5, 4.0) * core_bandwidth,
            gpu_share: random.log_uniform(0.000_3, 0.02),
            sharing: random.log_uniform(5_000.0, 80_000.0),
            efficiency: 0.75 + 0.25 * random.unit(),
            operations: std::array::from_fn(|_| [random.factor(0.25), random.factor(0.25)]),
            ripple: std::array::from_fn(|_| random.unit()),
            noise: random.log_uniform(0.02, 0.15),
            outliers: 0.02 * random.unit(),
            free: 1.0,
            bus_left: 1.0,
        }
    }

    /// Lets other programs come or go.
    pub(super) fn change_load(&mut self, random: &mut Random) {
        self.free = [1.0, 0.75, 0.5, 0.25][random.below(4)];
        self.bus_left = [1.0, 1.0, 0.7, 0.4][random.below(4)];
    }

    /// The average time of a call in nanoseconds; `is_cached` says that caches may hold the arrays.
    pub(super) fn time(
        &self, operation: usize, n: f64, work: &Work, is_cached: bool, choice: Choice,
    ) -> f64 {
        let bytes = f64::from(work.input_bytes + work.output_bytes);
        let on_cores = |cores| self.on_cores(operation, n, bytes, is_cached, cores);
        let ripple =
            |number: usize| 1.0 + 0.08 * (6.3 * self.ripple[number] + 1.7 * bytes.ln()).sin();
        match choice {
            Choice::Gpu => self.on_gpus(operation, n, work, 1.0) * ripple(1),
            Choice::Gpus => {
                let gpus = self.processors.gpus as f64;
                (self.on_gpus(operation, n, work, gpus.powf(self.efficiency)) + self.sharing)
                    * ripple(2)
            }
            Choice::Together => {
                let gpus = self.processors.gpus as f64;
                let alone = self.on_gpus(operation, n, work, gpus.powf(self.efficiency));
                let cores = (self.processors.cores - self.processors.gpus).max(1);
                let cores = on_cores(cores);
                let at_once = 1.0 / (1.0 / alone + 0.85 / cores);
                (at_once + self.sharing) * ripple(3)
            }
            of_cores => {
                let threads = of_cores.threads(work.most_threads, self.processors.cores);
                on_cores(threads) * ripple(0)
            }
        }
    }

    fn on_cores(
        &self, operation: usize, n: f64, bytes: f64, is_cached: bool, threads: usize,
    ) -> f64 {
        let free = (self.free * self.processors.cores as f64).max(1.0);
        let wanted = threads as f64;
        // Threads past the free cores share them, and the last is late.
        let late = if wanted > free { 1.0 + 0.3 * (wanted / free - 1.0) } else { 1.0 };
        let threads = wanted.min(free);
        let arithmetic =
            n * OPERATIONS[operation].element_ns * self.core * self.operations[operation][0]
                / threads.powf(self.efficiency);
        // From cache to memory by degrees.
        let cache = if is_cached { self.cache * threads } else { 0.0 };
        let in_memory = bytes / (bytes + cache);
        let rate = 1.0 / (1.0 / (self.core_bandwidth * threads) + 1.0 / self.bandwidth);
        let memory = in_memory * bytes / rate;
        let joint = (arithmetic.powi(3) + memory.powi(3)).cbrt();
        let wake = if wanted > 1.0 { self.wake + self.wake_each * wanted } else { 0.0 };
        60.0 + joint * late + wake * late
    }

    fn on_gpus(&self, operation: usize, n: f64, work: &Work, gpus: f64) -> f64 {
        let [inputs, output] = [work.input_bytes, work.output_bytes].map(f64::from);
        let bus = self.bus * self.bus_left;
        let across = if self.is_duplex { inputs.max(output) } else { inputs + output } / bus;
        let arithmetic =
            n * OPERATIONS[operation].element_ns * self.operations[operation][1] * self.gpu_share;
        let busy = across.max(arithmetic) / gpus;
        if work.is_staged {
            let copied = (inputs + output) / self.staging;
            let first = (inputs + output).min(1e6) / self.core_bandwidth;
            return self.latency[1] + first + (busy.powi(4) + copied.powi(4)).powf(0.25);
        }
        self.latency[0] + busy
    }

    /// The random factor of one call's time.
    pub(super) fn noise(&self, random: &mut Random) -> f64 {
        let outlier = random.unit() < self.outliers;
        random.factor(self.noise) * if outlier { random.log_uniform(1.5, 20.0) } else { 1.0 }
    }
}
