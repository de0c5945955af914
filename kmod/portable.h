/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files about RDT need of C. They are pure: the module and the host's unit tests compile the
 * very same files, and only this header knows which of the two it is.
 */
#ifndef SLOTSCOPE_PORTABLE_H
#define SLOTSCOPE_PORTABLE_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/string.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#endif

#endif /* SLOTSCOPE_PORTABLE_H */
