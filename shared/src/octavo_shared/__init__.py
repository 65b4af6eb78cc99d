"""What octavo's packages have in common: claims and their report, paired timings, data sets."""
