"""What tools/bench/engine.py is made of: workloads, peers in processes of their own, rounds, the machine's peak, tables."""
