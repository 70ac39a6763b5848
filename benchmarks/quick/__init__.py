"""Has anything become slower? Five groups in four minutes, each as a ratio to a yardstick of the same run."""
