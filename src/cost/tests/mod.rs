mod machines;
mod simulation;
mod speed;
