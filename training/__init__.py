"""What every training script uses; each file can be read alone. The loops are in the scripts."""
