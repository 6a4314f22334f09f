"""What the machine gives: LAPACK, threads, memory, whole files."""
