"""Wang, Wei, Hsu and Lee, "Transformers Provably Learn Sparse Token Selection While Fully-Connected Nets Cannot"."""
