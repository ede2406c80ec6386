from pathlib import Path

import tensorflow as tf

zero_out = tf.load_op_library(str(Path(__file__).with_name("_zero_out.so"))).zero_out
